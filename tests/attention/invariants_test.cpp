// The result for a sequence depends neither on how its tokens are cut into batches, nor on what shares a batch, nor on
// threads, page size or workspace: outputs, selections and cache contents are the same bit for bit.
#include <gtest/gtest.h>

#include <random>

#include "attention/stack.hpp"

namespace skim::test {
namespace {

constexpr std::int64_t kTokens = 64;

/// Parameters: kernel set, configuration.
class Invariants : public testing::TestWithParam<SetAndConfig> {
 protected:
  static CacheOptions options() { return {.max_tokens = 256, .page_rows = 16, .threads = 1}; }

  Model model_ = small_model(GetParam());
};

TEST_P(Invariants, EverySplitInTwoGivesTheSameBits) {
  const Outcome whole = run_alone(model_, options(), "a", {kTokens});
  for (std::int64_t first = 1; first < kTokens; ++first) {
    ASSERT_EQ(difference(whole, run_alone(model_, options(), "a", {first, kTokens - first})), "") << "after " << first;
  }
}

TEST_P(Invariants, EqualPiecesOfAnySizeGiveTheSameBits) {
  const Outcome whole = run_alone(model_, options(), "a", {kTokens});
  for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 8, 11, 16, 31}) {
    std::vector<std::int64_t> pieces(kTokens / size, size);
    if (kTokens % size != 0) pieces.push_back(kTokens % size);
    ASSERT_EQ(difference(whole, run_alone(model_, options(), "a", pieces)), "") << "pieces of " << size;
  }
}

TEST_P(Invariants, RandomPiecesGiveTheSameBits) {
  const Outcome whole = run_alone(model_, options(), "a", {kTokens});
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::int64_t> pieces;
    for (std::int64_t left = kTokens; left > 0; left -= pieces.back()) {
      pieces.push_back(std::uniform_int_distribution<std::int64_t>(1, std::min<std::int64_t>(left, 17))(random));
    }
    ASSERT_EQ(difference(whole, run_alone(model_, options(), "a", pieces)), "") << "seed " << seed;
  }
}

TEST_P(Invariants, CompanyInABatchChangesNothing) {
  Stack together(model_, options());
  for (const char* name : {"a", "b", "c"}) together.add(name);
  together.feed({{"a", 13}, {"b", 1}, {"c", 30}});
  together.feed({{"c", 1}, {"b", 20}});
  together.feed({{"b", 1}, {"a", 7}, {"c", 2}});
  together.feed({{"a", 1}, {"c", 1}, {"b", 1}});
  for (const auto& [name, tokens] : std::map<std::string, std::int64_t>{{"a", 21}, {"b", 23}, {"c", 34}}) {
    EXPECT_EQ(difference(run_alone(model_, options(), name, {tokens}), together.outcome(name)), "") << name;
  }
}

TEST_P(Invariants, ThreadsChangeNothing) {
  const Outcome one = run_alone(model_, options(), "a", {40, 1, 23});
  for (const int threads : {2, 3}) {
    CacheOptions many = options();
    many.threads = threads;
    EXPECT_EQ(difference(one, run_alone(model_, many, "a", {40, 1, 23})), "") << threads << " threads";
  }
}

TEST_P(Invariants, PageSizeChangesNothing) {
  const Outcome medium = run_alone(model_, options(), "a", {40, 1, 23});
  for (const std::int64_t rows : {1, 3, 1024}) {
    CacheOptions other = options();
    other.page_rows = rows;
    EXPECT_EQ(difference(medium, run_alone(model_, other, "a", {40, 1, 23})), "") << rows << " rows per page";
  }
}

TEST_P(Invariants, WorkspaceChangesNothing) {
  const Outcome ample = run_alone(model_, options(), "a", {kTokens});
  for (const std::int64_t bytes : {0, 50'000, 300'000}) {  // tiles of one token, and of a few
    CacheOptions tight = options();
    tight.workspace_bytes = bytes;
    EXPECT_EQ(difference(ample, run_alone(model_, tight, "a", {kTokens})), "") << bytes << " bytes";
  }
}

TEST_P(Invariants, ADroppedBatchLeavesNoTrace) {
  for (const std::int64_t before : {0, 1, 6, 7, 8, 21}) {
    Stack stack(model_, options());
    stack.add("a");
    if (before > 0) stack.feed({{"a", before}});
    const std::vector<std::byte> state = state_bytes(stack.cache(), stack.id("a"));
    const std::int64_t bytes = stack.cache().bytes();
    stack.feed_and_drop({{"a", 37}});
    EXPECT_EQ(state, state_bytes(stack.cache(), stack.id("a")));
    EXPECT_EQ(bytes, stack.cache().bytes());
    stack.feed({{"a", 9}});
    EXPECT_EQ(difference(run_alone(model_, options(), "a", {before + 9}), stack.outcome("a")), "") << before;
  }
}

/// A comparison of bits means nothing if they are all zero or NaN.
TEST_P(Invariants, OutputsAreFiniteAndVaried) {
  const Outcome outcome = run_alone(model_, options(), "a", {kTokens});
  for (const auto& [layer, out] : outcome.out) {
    std::int64_t ordinary = 0;
    for (const bf16 value : out) {
      const int exponent = (value.bits >> 7) & 0xFF;
      ordinary += exponent > 0 && exponent < 255 ? 1 : 0;
    }
    EXPECT_GT(ordinary, static_cast<std::int64_t>(out.size()) * 9 / 10) << "layer " << layer;
  }
}

INSTANTIATE_TEST_SUITE_P(AllSets, Invariants,
                         testing::Combine(testing::ValuesIn(available_sets()), testing::ValuesIn(small_config_names())),
                         [](const auto& suite) { return joined(suite.param); });

}  // namespace
}  // namespace skim::test

// Claims: what a cache occupies is exactly accounted for; every limit is refused with the limit and the need, and then
// nothing has changed.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>

#include "base/access.hpp"
#include "cache/cache_fixture.hpp"
#include "cache/cache_impl.hpp"
#include "named_v32.hpp"
#include "named_v41.hpp"

namespace skim::test {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

TEST_F(Cache, EveryByteIsAccountedFor) {
  KvCache cache(model_, options());
  const CacheCost cost = cache_cost(model_.config(), model_.layers(), options());
  const SequenceId id = cache.add(), other = cache.add();
  EXPECT_EQ(cache.bytes(), 0);
  std::int64_t length = 0;
  for (const std::int64_t tokens : {1, 14, 1, 1, 15, 1, 31, 64}) {
    feed(cache, id, tokens);
    length += tokens;
    EXPECT_EQ(cache.length(id), length);
    EXPECT_EQ(cache.bytes(), cost.bytes_at(length)) << length << " tokens";
  }
  const std::int64_t alone = cache.bytes();
  feed(cache, other, 40);
  EXPECT_EQ(cache.bytes(), alone + cost.bytes_at(40));
  cache.remove(id);
  EXPECT_EQ(cache.bytes(), cost.bytes_at(40));
  cache.remove(other);
  EXPECT_EQ(cache.bytes(), 0);
}

/// Makes room as begin does, and settles as commit does, without the hours of computing that lie between.
void grow(KvCache& cache, SequenceId id, std::int64_t tokens) {
  Sequence& sequence = Access::impl(cache).find(id);
  sequence.grow(*Access::impl(cache).layout, sequence.length + tokens);
  const std::int64_t start = sequence.length, end = start + tokens;
  for (Ring& ring : sequence.rings) {
    std::vector<std::byte> rows(static_cast<std::size_t>(tokens * ring.row_bytes()));
    ring.commit(start, end, {rows.data(), start, ring.row_bytes()});
  }
  sequence.length = end;
  sequence.settle(*Access::impl(cache).layout);
}

// FAULTS 126
TEST(Fault126, TheCostIsWhatIsAllocatedForOneTokenToAHundredThousand) {
  for (const std::string& name : {std::string("tiny"), std::string("v32_tiny")}) {
    const Model model = small_model({"portable", name});
    for (const std::int64_t page_rows : {1, 3, 16, 256}) {
      for (const std::int64_t rollback : {0, 5, 1000}) {
        SCOPED_TRACE(testing::Message() << name << " page_rows " << page_rows << " rollback " << rollback);
        const CacheOptions options{.max_tokens = 100'000, .rollback = rollback, .page_rows = page_rows, .threads = 1};
        const CacheCost cost = cache_cost(model.config(), model.layers(), options);
        KvCache cache(model, options);
        const SequenceId id = cache.add();
        for (std::int64_t length = 0; length < 100'000;) {
          const std::int64_t tokens = std::min(length < 600 ? 1 : 1 + length / 7, 100'000 - length);
          grow(cache, id, tokens);
          length += tokens;
          ASSERT_EQ(cache.bytes(), cost.bytes_at(length)) << length << " tokens";
        }
      }
    }
  }
}

TEST(Fault126, AShortChatIsCheap) {
  std::vector<int> layers(61);
  std::iota(layers.begin(), layers.end(), 0);
  const CacheCost cost = cache_cost(named_v32("v32"), layers);
  EXPECT_EQ(cost.bytes_at(1), 61 * 788);  // 48 KB: one latent row and one index key a layer
  EXPECT_LE(cost.bytes_at(100), 2 * 100 * 61 * 788);
}

TEST(CacheCost, TheReleasedModelTakes890BytesPerToken) {
  const V41Config config = named_v41("v41-flash");
  std::vector<int> layers(40);
  std::iota(layers.begin(), layers.end(), 0);
  const CacheCost cost = cache_cost(config, layers);
  EXPECT_EQ(cost.bytes_per_token, 890);
  // 40 rings of 128 rows of 512 codes and 16 scales; 3 sources of ratio 2 keep one open token of 2 x 512 floats.
  EXPECT_EQ(cost.bytes_fixed, 40 * 128 * 528 + 3 * 2 * 512 * 4);
  EXPECT_EQ(cost.bytes_at(1'048'576), 933'232'640 + cost.bytes_fixed);
  EXPECT_EQ(cost.bytes_at(0), 0);
  EXPECT_EQ(cost.bytes_at(kHuge), std::int64_t{1} << 62);
  EXPECT_TRUE(refuses([&] { cache_cost(config, std::array{43}); }, ErrorCode::invalid_argument, {"43"}));
  EXPECT_TRUE(refuses([&] { cache_cost(config, std::array{-1}); }, ErrorCode::invalid_argument, {"-1"}));
}

TEST(CacheCost, V32Takes788BytesPerTokenAndLayer) {
  // A latent of 512 codes with 4 float32 scales, 64 rotated bf16 elements; an index key of 128 codes with a scale.
  for (const int count : {1, 61}) {
    std::vector<int> layers(static_cast<std::size_t>(count));
    std::iota(layers.begin(), layers.end(), 0);
    const CacheCost cost = cache_cost(named_v32("v32"), layers);
    EXPECT_EQ(cost.bytes_per_token, 788 * count);
    EXPECT_EQ(cost.bytes_fixed, 0);
    EXPECT_EQ(cost.bytes_at(1000), 788 * 1024 * count);  // in pages of 256 rows
  }
}

TEST_F(Cache, OptionsOutOfRangeAreNamed) {
  const auto refused = [&](const CacheOptions& wrong, const std::string& field) {
    EXPECT_TRUE(refuses([&] { KvCache(model_, wrong); }, ErrorCode::invalid_argument, {field, "expected"}));
  };
  refused({.max_tokens = 0}, "max_tokens");
  refused({.max_tokens = kHuge}, "max_tokens");
  refused({.max_sequences = 0}, "max_sequences");
  refused({.max_bytes = -1}, "max_bytes");
  refused({.page_rows = 0}, "page_rows");
  refused({.page_rows = kHuge}, "page_rows");
  refused({.workspace_bytes = -1}, "workspace_bytes");
  refused({.threads = -1}, "threads");
}

TEST_F(Cache, AtMostMaxSequencesExist) {
  CacheOptions two = options();
  two.max_sequences = 2;
  KvCache cache(model_, two);
  const SequenceId first = cache.add(), second = cache.add();
  EXPECT_TRUE(refuses([&] { cache.add(); }, ErrorCode::limit_exceeded, {"max_sequences is 2", "3"}));
  cache.remove(first);
  const SequenceId third = cache.add();
  EXPECT_NE(third, first);  // never reused
  EXPECT_NE(third, second);
  EXPECT_TRUE(refuses([&] { cache.length(first); }, ErrorCode::invalid_argument, {"sequence 0"}));
}

TEST_F(Cache, BeyondMaxTokensNothingChanges) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add(), other = cache.add();
  feed(cache, id, 250);
  const std::vector<std::byte> state = state_bytes(cache, id);
  const std::int64_t bytes = cache.bytes();
  for (const std::int64_t tokens : {std::int64_t{7}, std::int64_t{1} << 40, kHuge}) {
    EXPECT_TRUE(refuses(
        [&] {
          cache.begin({{other, 1}, {id, tokens}});
        },
        ErrorCode::limit_exceeded, {"max_tokens is 256", "250", std::to_string(tokens)}));
    EXPECT_EQ(state_bytes(cache, id), state);
    EXPECT_EQ(cache.bytes(), bytes);
  }
  feed(cache, other, 1);  // not left in a batch
  feed(cache, id, 6);
}

TEST_F(Cache, BeyondMaxBytesNothingChanges) {
  const std::int64_t need = cache_cost(model_.config(), model_.layers(), options()).bytes_at(100);
  for (const std::int64_t limit : {need - 1, need}) {
    CacheOptions limited = options();
    limited.max_bytes = limit;
    KvCache cache(model_, limited);
    const SequenceId id = cache.add();
    feed(cache, id, 30);
    const std::vector<std::byte> state = state_bytes(cache, id);
    const std::int64_t bytes = cache.bytes();
    if (limit == need) {
      feed(cache, id, 70);
      EXPECT_EQ(cache.bytes(), need);
      continue;
    }
    EXPECT_TRUE(refuses(
        [&] {
          cache.begin({{id, 70}});
        },
        ErrorCode::limit_exceeded, {"max_bytes is " + std::to_string(limit), std::to_string(need)}));
    EXPECT_EQ(state_bytes(cache, id), state);
    EXPECT_EQ(cache.bytes(), bytes);
    feed(cache, id, 1);
  }
}

TEST_F(Cache, AnOpenBatchTakesNoMoreThanItWasAdmittedFor) {
  const std::int64_t need = cache_cost(model_.config(), model_.layers(), options()).bytes_at(100);
  CacheOptions limited = options();
  limited.max_bytes = need;
  KvCache cache(model_, limited);
  const SequenceId id = cache.add();
  feed(cache, id, 21);  // its last pages are not full, and continued where they are
  const Batch batch = cache.begin({{id, 79}});
  EXPECT_EQ(cache.bytes(), need);
}

TEST_F(Cache, BatchesOfWrongSequencesAreRefused) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add(), other = cache.add();
  const std::int64_t unknown = other.value + 1;
  const auto refused = [&](std::initializer_list<BatchEntry> entries, ErrorCode code, const std::string& word) {
    EXPECT_TRUE(refuses([&] { cache.begin(entries); }, code, {word}));
    EXPECT_EQ(cache.bytes(), 0);
  };
  refused({}, ErrorCode::invalid_argument, "no sequences");
  refused({{id, 1}, {SequenceId{unknown}, 1}}, ErrorCode::invalid_argument, std::to_string(unknown));
  refused({{SequenceId{}, 1}}, ErrorCode::invalid_argument, "-1");
  refused({{id, 1}, {other, 1}, {id, 1}}, ErrorCode::invalid_argument, "twice");
  refused({{id, 1}, {other, 0}}, ErrorCode::invalid_argument, "0 tokens");
  refused({{id, -5}}, ErrorCode::invalid_argument, "-5 tokens");
  {
    const Batch open = cache.begin({{other, 1}});
    EXPECT_TRUE(refuses([&] { cache.begin({{id, 1}, {other, 1}}); }, ErrorCode::wrong_order, {"another batch"}));
    EXPECT_TRUE(refuses([&] { cache.remove(other); }, ErrorCode::wrong_order, {"part of a batch"}));
  }
  EXPECT_EQ(cache.bytes(), 0);
  const Batch both = cache.begin({{id, 1}, {other, 1}});
  EXPECT_EQ(both.tokens(), 2);
  EXPECT_TRUE(refuses([&] { cache.remove(SequenceId{unknown}); }, ErrorCode::invalid_argument));
}

}  // namespace
}  // namespace skim::test

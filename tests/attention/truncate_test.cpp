// Claims: a sequence can go back to exactly the lengths it says it can, and is then in every bit what it was there; it
// never claims a length whose state is gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "attention/stack.hpp"
#include "cache/cache_fixture.hpp"

namespace skim::test {
namespace {

CacheOptions options(std::int64_t rollback) {
  return {.max_tokens = 1024, .rollback = rollback, .page_rows = 4, .threads = 1};
}

bool holds(const std::vector<LengthRange>& ranges, std::int64_t tokens) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const LengthRange& range) { return range.first <= tokens && tokens <= range.last; });
}

/// Parameters: kernel set, configuration.
class Truncate : public testing::TestWithParam<SetAndConfig> {
 protected:
  /// Every claimed length gives the state of a lone sequence, every other is refused.
  static void expect_honest(Stack& stack, const std::string& name) {
    const SequenceId id = stack.id(name);
    const std::vector<LengthRange> ranges = stack.cache().restorable(id);
    const std::vector<std::byte> before = state_bytes(stack.cache(), id);
    for (std::int64_t tokens = 0; tokens <= stack.cache().length(id) + 1; ++tokens) {
      SCOPED_TRACE(testing::Message() << tokens << " of " << stack.cache().length(id) << " tokens");
      if (!holds(ranges, tokens)) {
        EXPECT_TRUE(refuses([&] { stack.cache().fork(id, tokens); }, ErrorCode::invalid_argument, {"restored"}));
        EXPECT_TRUE(refuses([&] { stack.cache().truncate(id, tokens); }, ErrorCode::invalid_argument, {"restored"}));
        continue;
      }
      stack.fork(name, "probe", tokens);
      EXPECT_EQ(stack.difference_from_alone("probe"), "");
      stack.remove("probe");
    }
    EXPECT_EQ(state_bytes(stack.cache(), id), before);
  }

  Model model_ = small_model(GetParam());
};

TEST_P(Truncate, NoHistoryClaimsMoreThanItCanRestore) {
  for (const std::int64_t rollback : {0, 4}) {
    Stack stack(model_, options(rollback));
    stack.add("a");
    std::mt19937 random(static_cast<unsigned>(rollback));
    const auto below = [&](std::int64_t end) {
      return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random);
    };
    for (int step = 0; step < (is_slow(GetParam()) ? 5 : 10); ++step) {
      SCOPED_TRACE(testing::Message() << "rollback " << rollback << ", step " << step);
      const std::int64_t length = stack.cache().length(stack.id("a"));
      for (std::int64_t p = length; p < length + 24; ++p) stack.put("a", p, std::to_string(step));
      const std::int64_t tokens = 1 + below(length == 0 ? 24 : 6);
      if (below(2) == 0) {
        stack.feed({{"a", tokens}});
      } else {
        stack.speculate({{"a", tokens, tokens - below(std::min(rollback, tokens) + 1)}});
      }
      const std::vector<LengthRange> ranges = stack.cache().restorable(stack.id("a"));
      const LengthRange last = ranges.back();
      if (step % 2 == 1) stack.truncate("a", last.first + below(last.last - last.first + 1));
      expect_honest(stack, "a");
    }
    EXPECT_EQ(stack.difference_from_alone("a"), "");
  }
}

TEST_P(Truncate, ToNothingIsANewSequence) {
  Stack stack(model_, options(4));
  stack.add("a");
  stack.feed({{"a", 25}});
  stack.truncate("a", 0);
  EXPECT_EQ(stack.cache().bytes(), 0);
  EXPECT_EQ(stack.cache().restorable(stack.id("a")), (std::vector<LengthRange>{{0, 0}}));
  stack.put("a", 3, "b");
  stack.feed({{"a", 6}});
  EXPECT_EQ(stack.difference_from_alone("a"), "");
}

TEST_P(Truncate, GoesOnWithOtherTokens) {
  for (std::int64_t tokens = 21; tokens <= 25; tokens += is_slow(GetParam()) ? 3 : 1) {
    Stack stack(model_, options(4));
    stack.add("a");
    stack.feed({{"a", 25}});
    stack.truncate("a", tokens);
    for (std::int64_t p = tokens; p < 25; ++p) stack.put("a", p, "b");
    stack.feed({{"a", 1}});
    stack.feed({{"a", 12}});
    EXPECT_EQ(stack.difference_from_alone("a"), "") << tokens;
  }
}

TEST_P(Truncate, OfAForkLeavesTheParent) {
  Stack stack(model_, options(4));
  stack.add("a");
  stack.feed({{"a", 25}});
  stack.fork("a", "b", 25);
  stack.truncate("b", 22);
  EXPECT_EQ(stack.difference_from_alone("a"), "");
  stack.feed({{"b", 4}});
  stack.feed({{"a", 2}});
  stack.truncate("a", 24);
  stack.feed({{"b", 1}, {"a", 1}});
  for (const char* name : {"a", "b"}) EXPECT_EQ(stack.difference_from_alone(name), "") << name;
}

INSTANTIATE_TEST_SUITE_P(AllSets, Truncate,
                         testing::Combine(testing::ValuesIn(available_sets()), testing::ValuesIn(small_config_names())),
                         [](const auto& suite) { return joined(suite.param); });

/// A layer of ratio 2 with a window of 128.
Model wide_window() {
  V41Config config = one_layer(2);
  config.window_size = 128;
  return Model(Checkpoint::synthetic(config));
}

/// A fork at this length and a truncated copy go on for some tokens like a lone sequence; the original is untouched.
void expect_legal(Stack& stack, std::int64_t tokens) {
  stack.fork("a", "child", tokens);
  stack.fork("a", "cut", stack.cache().length(stack.id("a")));
  stack.truncate("cut", tokens);
  for (const char* name : {"child", "cut"}) {
    for (std::int64_t p = tokens; p < tokens + 3; ++p) stack.put(name, p, "next");
    EXPECT_EQ(stack.difference_from_alone(name), "") << name << " at " << tokens;
    stack.feed({{name, 3}});
    EXPECT_EQ(stack.difference_from_alone(name), "") << name << " at " << tokens;
    stack.remove(name);
  }
  EXPECT_EQ(stack.difference_from_alone("a"), "");
}

void expect_refused(Stack& stack, std::int64_t tokens, const std::string& legal) {
  const SequenceId id = stack.id("a");
  const std::vector<std::string> words = {"at " + std::to_string(tokens) + " tokens", "it can at: " + legal};
  EXPECT_TRUE(refuses([&] { stack.cache().fork(id, tokens); }, ErrorCode::invalid_argument, words));
  EXPECT_TRUE(refuses([&] { stack.cache().truncate(id, tokens); }, ErrorCode::invalid_argument, words));
  EXPECT_EQ(stack.difference_from_alone("a"), "");
}

TEST(Fault14, TheLatestLengthsOfALongSequenceCanBeRestored) {
  const Model model = wide_window();
  Stack stack(model, options(0));
  stack.add("a");
  stack.feed({{"a", 301}});
  expect_legal(stack, 301);
  expect_legal(stack, 300);
  expect_refused(stack, 299, "0, 300 to 301");
  expect_refused(stack, 250, "0, 300 to 301");
}

TEST(Fault14, AnUnfinishedGroupThatIsGoneIsRefused) {
  const Model model = wide_window();
  Stack stack(model, options(0));
  stack.add("a");
  stack.feed({{"a", 300}});
  expect_legal(stack, 300);
  expect_refused(stack, 299, "0, 300");
}

TEST(Fault14, InsideTheWindowEveryWholeGroupCanBeRestored) {
  const Model model = wide_window();
  Stack stack(model, options(0));
  stack.add("a");
  stack.feed({{"a", 100}});
  expect_legal(stack, 62);
  expect_refused(stack, 63, "0, 2, 4, 6");
}

TEST(Fault34, APrefixInsideThePastIsReusedOnlyWithItsRing) {
  const Model model = wide_window();
  Stack none(model, options(0)), enough(model, options(16));
  for (Stack* stack : {&none, &enough}) {
    stack->add("a");
    stack->feed({{"a", 400}});
  }
  expect_refused(none, 384, "0, 400");
  expect_legal(enough, 384);
  expect_legal(enough, 385);
  expect_refused(enough, 383, "0, 384 to 400");
}

TEST(Fault35, SequencesShareNoStateBeyondWhatTheyHaveInCommon) {
  const Model model(Checkpoint::synthetic(small_config("tiny")));
  Stack stack(model, options(0));
  stack.add("a");
  stack.feed({{"a", 130}});
  stack.fork("a", "b", 130);
  stack.feed({{"a", 40}});
  EXPECT_EQ(stack.cache().length(stack.id("b")), 130);
  EXPECT_EQ(stack.difference_from_alone("b"), "");
  stack.feed({{"b", 33}});
  stack.feed({{"a", 1}, {"b", 1}});
  for (const char* name : {"a", "b"}) EXPECT_EQ(stack.difference_from_alone(name), "") << name;
}

TEST(Restorable, NeedsTheWindowAndTheUnfinishedGroup) {
  const Model model(Checkpoint::synthetic(one_layer(2)));  // window 8: the example of KvCache::restorable
  Stack stack(model, options(2));
  stack.add("a");
  stack.feed({{"a", 40}});
  EXPECT_EQ(stack.cache().restorable(stack.id("a")), (std::vector<LengthRange>{{0, 0}, {38, 40}}));
}

TEST(Restorable, ShrinksByWhatWasTakenBack) {
  const Model model(Checkpoint::synthetic(one_layer(0)));  // window 8, no groups
  Stack stack(model, options(6));
  stack.add("a");
  stack.feed({{"a", 40}});
  const auto ranges = [&] { return stack.cache().restorable(stack.id("a")); };
  EXPECT_EQ(ranges(), (std::vector<LengthRange>{{0, 0}, {33, 40}}));
  stack.truncate("a", 36);
  EXPECT_EQ(ranges(), (std::vector<LengthRange>{{0, 0}, {33, 36}}));
  stack.feed({{"a", 2}});
  EXPECT_EQ(ranges(), (std::vector<LengthRange>{{0, 0}, {33, 38}}));
  stack.feed({{"a", 4}});
  EXPECT_EQ(ranges(), (std::vector<LengthRange>{{0, 0}, {35, 42}}));
}

}  // namespace
}  // namespace skim::test

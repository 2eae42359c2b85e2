// Claims: after a batch of which only the first tokens were accepted, a sequence is in every bit what it would be if
// only those had been fed; what cannot be rejected is refused, and then the batch can go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "attention/stack.hpp"
#include "cache/cache_fixture.hpp"

namespace skim::test {
namespace {

constexpr std::int64_t kWidest = 12;

CacheOptions options(std::int64_t rollback = kWidest) {
  return {.max_tokens = 1024, .rollback = rollback, .page_rows = 4, .threads = 1};
}

/// Parameters: kernel set, configuration.
class Speculation : public testing::TestWithParam<SetAndConfig> {
 protected:
  Model model_ = small_model(GetParam());
};

TEST_P(Speculation, AnyPartOfADraftOfAnyWidthCanBeAccepted) {
  for (std::int64_t start = is_slow(GetParam()) ? 14 : 13; start <= 14;
       ++start) {  // drafts cross groups, pages, and the window that ends at 16
    Stack stack(model_, options());
    stack.add("a");
    stack.feed({{"a", start}});
    for (std::int64_t width = 1; width <= kWidest; width += is_slow(GetParam()) && width > 1 ? 5 : 1) {
      for (std::int64_t accepted = 0; accepted <= width; ++accepted) {
        SCOPED_TRACE(testing::Message() << accepted << " of " << width << " accepted after " << start);
        stack.fork("a", "b", start);
        stack.speculate({{"b", width, accepted}});
        ASSERT_EQ(stack.difference_from_alone("b"), "");
        stack.feed({{"b", 3}});
        ASSERT_EQ(stack.difference_from_alone("b"), "");
        stack.remove("b");
      }
    }
    EXPECT_EQ(stack.difference_from_alone("a"), "");
  }
}

TEST_P(Speculation, RoundsMayFollowEachOther) {
  Stack stack(model_, options());
  stack.add("a");
  std::mt19937 random(7);
  for (int round = 0; round < 16; ++round) {
    const auto width = std::uniform_int_distribution<std::int64_t>(1, kWidest)(random);
    const auto accepted = std::uniform_int_distribution<std::int64_t>(0, std::min<std::int64_t>(width, 5))(random);
    stack.speculate({{"a", width, accepted}});
    ASSERT_EQ(stack.difference_from_alone("a"), "") << accepted << " of " << width << " in round " << round;
  }
  stack.feed({{"a", 12}});
  EXPECT_EQ(stack.difference_from_alone("a"), "");
}

TEST_P(Speculation, SequencesOfABatchKeepDifferentParts) {
  Stack stack(model_, options());
  for (const char* name : {"a", "b", "c", "d"}) stack.add(name);
  stack.feed({{"a", 9}, {"b", 20}, {"c", 3}});
  const std::vector<std::byte> dropped = state_bytes(stack.cache(), stack.id("c"));
  stack.speculate({{"a", 5, 2}, {"c", 12, {}}, {"d", 7, 0}, {"b", 12, 11}});
  EXPECT_EQ(state_bytes(stack.cache(), stack.id("c")), dropped);
  EXPECT_EQ(stack.cache().length(stack.id("d")), 0);
  stack.speculate({{"d", 6, 1}, {"b", 1, 1}, {"a", 8, 3}, {"c", 2, 0}});
  stack.feed({{"c", 4}, {"a", 12}, {"d", 1}, {"b", 1}});
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_EQ(stack.difference_from_alone(name), "") << name;
}

TEST_P(Speculation, NothingRemainsOfWhatWasRejected) {
  for (const std::int64_t start : {0, 1, 7, 8, 15, 16}) {
    for (std::int64_t accepted = 0; accepted <= 4; accepted += is_slow(GetParam()) ? 3 : 1) {
      SCOPED_TRACE(testing::Message() << accepted << " accepted after " << start);
      Stack drafted(model_, options()), plain(model_, options());
      for (Stack* stack : {&drafted, &plain}) {
        stack->add("a");
        if (start > 0) stack->feed({{"a", start}});
      }
      drafted.speculate({{"a", 12, accepted}});
      if (accepted > 0) plain.feed({{"a", accepted}});
      EXPECT_EQ(drafted.cache().bytes(), plain.cache().bytes());
      EXPECT_EQ(drafted.cache().restorable(drafted.id("a")), plain.cache().restorable(plain.id("a")));
      EXPECT_EQ(difference(plain.outcome("a"), drafted.outcome("a")), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllSets, Speculation,
                         testing::Combine(testing::ValuesIn(available_sets()), testing::ValuesIn(small_config_names())),
                         [](const auto& suite) { return joined(suite.param); });

/// Drafts after `start` tokens, then 12 more tokens, without a fork.
void expect_only_accepted_tokens_count(const Model& model, std::int64_t start, std::int64_t width,
                                       std::int64_t accepted) {
  SCOPED_TRACE(testing::Message() << accepted << " of " << width << " accepted after " << start);
  Stack stack(model, options());
  stack.add("a");
  stack.feed({{"a", start}});
  stack.speculate({{"a", width, accepted}});
  EXPECT_EQ(stack.difference_from_alone("a"), "");
  stack.feed({{"a", 12}});
  EXPECT_EQ(stack.difference_from_alone("a"), "");
}

TEST(Fault03, PartOfADraftIsCommittedInPlace) {
  const Model model(Checkpoint::synthetic(one_layer(2)));
  for (std::int64_t accepted = 0; accepted <= 5; ++accepted) {
    expect_only_accepted_tokens_count(model, 21, 5, accepted);
    expect_only_accepted_tokens_count(model, 20, 5, accepted);
  }
}

TEST(Fault33, PartOfADraftOfAnyWidthIsCommittedInPlace) {
  for (const int ratio : {0, 1, 2, 4}) {
    const Model model(Checkpoint::synthetic(one_layer(ratio)));
    for (std::int64_t width = 1; width <= kWidest; ++width) {
      for (std::int64_t accepted = 0; accepted <= width; ++accepted) {
        expect_only_accepted_tokens_count(model, 14, width, accepted);
      }
    }
  }
}

TEST(Fault33, MoreThanRollbackIsNotRejectedInPart) {
  const Model model(Checkpoint::synthetic(small_config("tiny")));
  Stack stack(model, options(3));
  stack.add("a");
  stack.feed({{"a", 21}});
  const SequenceId id = stack.id("a");
  const std::vector<std::byte> before = state_bytes(stack.cache(), id);
  {
    Batch batch = stack.run({{"a", 8, {}}});
    EXPECT_TRUE(refuses([&] { batch.commit(id, 4); }, ErrorCode::limit_exceeded,
                        {"4 of the 8 tokens", "rejected", "rollback is 3"}));
    EXPECT_EQ(state_bytes(stack.cache(), id), before);
  }
  EXPECT_EQ(state_bytes(stack.cache(), id), before);
  Batch batch = stack.run({{"a", 8, 5}});
  EXPECT_TRUE(refuses([&] { batch.commit(id, 1); }, ErrorCode::limit_exceeded, {"7", "3"}));
  batch.commit(id, 5);
  EXPECT_EQ(stack.difference_from_alone("a"), "");
  stack.speculate({{"a", 8, 0}});  // all of them is no part
  stack.feed({{"a", 12}});
  EXPECT_EQ(stack.difference_from_alone("a"), "");
}

TEST(Fault33, WithoutRingsAnyNumberIsRejected) {
  for (const char* name : {"v32_tiny", "v32_odd"}) {
    const Model model(Checkpoint::synthetic(small_config(name)));
    for (std::int64_t accepted = 0; accepted <= 30; ++accepted) {
      Stack stack(model, options(0));
      stack.add("a");
      stack.feed({{"a", 6}});
      stack.speculate({{"a", 30, accepted}});
      stack.feed({{"a", 2}});
      EXPECT_EQ(stack.difference_from_alone("a"), "") << accepted << " of 30, " << name;
    }
  }
}

class PartialCommit : public Cache {
 protected:
  static CacheOptions options() { return {.max_tokens = 256, .rollback = 2, .page_rows = 16, .threads = 1}; }
};

TEST_F(PartialCommit, EverySequenceIsCommittedOnce) {
  KvCache cache(model_, options());
  const SequenceId a = cache.add(), b = cache.add(), stranger = cache.add();
  Batch batch = cache.begin({{a, 4}, {b, 3}});
  forward_all(batch, 0);
  const auto refused = [&](SequenceId id, std::int64_t accepted, ErrorCode code, const std::string& word) {
    EXPECT_TRUE(refuses([&] { batch.commit(id, accepted); }, code, {word}));
  };
  refused(stranger, 1, ErrorCode::invalid_argument, "sequence 2");
  refused(SequenceId{99}, 0, ErrorCode::invalid_argument, "sequence 99");
  refused(a, 5, ErrorCode::invalid_argument, "5 of the 4 tokens");
  refused(a, -1, ErrorCode::invalid_argument, "-1 of the 4 tokens");
  EXPECT_EQ(cache.length(a), 0);
  batch.commit(a, 2);
  const std::vector<std::byte> state = state_bytes(cache, a);
  refused(a, 2, ErrorCode::wrong_order, "sequence 0 is committed already");
  EXPECT_TRUE(refuses([&] { batch.commit(); }, ErrorCode::wrong_order, {"committed"}));
  EXPECT_TRUE(refuses([&] { forward(0, batch, 0); }, ErrorCode::wrong_order, {"committed"}));
  EXPECT_EQ(state_bytes(cache, a), state);
  EXPECT_EQ(cache.length(b), 0);
  feed(cache, a, 1);  // out of the batch, while b is still in it
  EXPECT_TRUE(refuses([&] { cache.begin({{b, 1}}); }, ErrorCode::wrong_order, {"another batch"}));
  batch.commit(b, 3);
  EXPECT_EQ(cache.length(a), 3);
  EXPECT_EQ(cache.length(b), 3);
}

TEST_F(PartialCommit, NothingIsCommittedBeforeAllLayersRan) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  Batch batch = cache.begin({{id, 4}});
  for (const int layer : model_.layers()) {
    EXPECT_TRUE(refuses([&] { batch.commit(id, 2); }, ErrorCode::wrong_order, {"layer " + std::to_string(layer)}));
    EXPECT_TRUE(refuses([&] { batch.commit(id, 0); }, ErrorCode::wrong_order, {"layer " + std::to_string(layer)}));
    EXPECT_EQ(cache.length(id), 0);
    forward(layer, batch, 0);
  }
  batch.commit(id, 2);
  EXPECT_EQ(state_bytes(cache, id), run_alone(model_, options(), "a", {2}).state);
}

TEST_F(PartialCommit, ASequenceThatIsCommittedMayGoWhileOthersWait) {
  KvCache cache(model_, options());
  const SequenceId a = cache.add(), b = cache.add();
  {
    Batch batch = cache.begin({{a, 4}, {b, 3}});
    forward_all(batch, 0);
    batch.commit(a, 4);
    cache.remove(a);
  }
  EXPECT_EQ(cache.length(b), 0);
  EXPECT_EQ(cache.bytes(), 0);
  feed(cache, b, 5);
  EXPECT_EQ(state_bytes(cache, b), run_alone(model_, options(), "a", {5}).state);
}

}  // namespace
}  // namespace skim::test

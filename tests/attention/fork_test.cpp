// Claims: sequences that share a beginning are, whatever becomes of either, in every bit what they would be alone; what
// they share is held once, and forking costs nothing, however long the beginning is.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "attention/stack.hpp"
#include "base/access.hpp"
#include "cache/cache_fixture.hpp"
#include "cache/cache_impl.hpp"

namespace skim::test {
namespace {

CacheOptions options(std::int64_t rollback = 5) {
  return {.max_tokens = 8192, .rollback = rollback, .page_rows = 4, .threads = 1};
}

std::vector<std::int64_t> lengths(const std::vector<LengthRange>& ranges) {
  std::vector<std::int64_t> all;
  for (const auto& [first, last] : ranges) {
    for (std::int64_t tokens = first; tokens <= last; ++tokens) all.push_back(tokens);
  }
  return all;
}

/// A page of every table: what the first to go on in a shared page pays at most, besides rings of its own.
std::int64_t one_page_per_table(const KvCache& cache, const CacheOptions& options) {
  std::int64_t bytes = 0;
  for (const LayerLayout& layer : Access::impl(cache).layout->layers) {
    for (const TableLayout& table : layer.tables) bytes += options.page_rows * table.row.bytes();
  }
  return bytes;
}

/// Parameters: kernel set, configuration.
class Fork : public testing::TestWithParam<SetAndConfig> {
 protected:
  Model model_ = small_model(GetParam());
  Stack stack_{model_, options()};
};

TEST_P(Fork, AtEveryLengthThatCanBeRestoredBothGoOnInAnyOrder) {
  const std::vector<std::function<void()>> orders = {
      [&] {
        stack_.feed({{"parent", 5}}), stack_.feed({{"child", 6}});
      },
      [&] {
        stack_.feed({{"child", 6}}), stack_.feed({{"parent", 5}});
      },
      [&] {
        for (const std::int64_t tokens : {1, 2, 2}) {
          stack_.feed({{"child", 2}});
          stack_.feed({{"parent", tokens}});
        }
      },
      [&] {
        stack_.feed({{"parent", 5}, {"child", 6}});
      },
  };
  stack_.add("a");
  stack_.feed({{"a", 29}});
  for (const std::int64_t tokens : lengths(stack_.cache().restorable(stack_.id("a")))) {
    for (std::size_t order = is_slow(GetParam()) ? 2 : 0; order < orders.size(); ++order) {
      SCOPED_TRACE(testing::Message() << "fork at " << tokens << ", order " << order);
      stack_.fork("a", "parent", 29);
      stack_.fork("parent", "child", tokens);
      ASSERT_EQ(stack_.difference_from_alone("child"), "");
      orders[order]();
      ASSERT_EQ(stack_.difference_from_alone("parent"), "");
      ASSERT_EQ(stack_.difference_from_alone("child"), "");
      stack_.remove("parent");
      stack_.remove("child");
    }
  }
  EXPECT_EQ(stack_.difference_from_alone("a"), "");
  stack_.remove("a");
  EXPECT_EQ(stack_.cache().bytes(), 0);
}

TEST_P(Fork, RemovingOneLeavesTheOther) {
  for (const bool parent_first : {true, false}) {
    const std::string first = parent_first ? "a" : "b", second = parent_first ? "b" : "a";
    stack_.add("a");
    stack_.feed({{"a", 29}});
    stack_.fork("a", "b", 29);
    stack_.feed({{"b", 3}, {"a", 1}});
    stack_.remove(first);
    EXPECT_EQ(stack_.difference_from_alone(second), "");
    stack_.feed({{second, 4}});
    EXPECT_EQ(stack_.difference_from_alone(second), "");
    stack_.remove(second);
    EXPECT_EQ(stack_.cache().bytes(), 0);
  }
}

TEST_P(Fork, ForksCanBeForked) {
  stack_.add("a");
  stack_.feed({{"a", 21}});
  stack_.fork("a", "b", 20);
  stack_.fork("b", "c", 20);
  stack_.feed({{"b", 5}});
  stack_.fork("b", "d", 24);
  stack_.feed({{"d", 2}, {"a", 2}, {"c", 1}});
  stack_.fork("d", "e", 26);
  stack_.remove("b");
  stack_.feed({{"e", 7}});
  stack_.feed({{"c", 9}, {"d", 1}});
  for (const char* name : {"a", "c", "d", "e"}) EXPECT_EQ(stack_.difference_from_alone(name), "") << name;
  for (const char* name : {"d", "a", "e", "c"}) stack_.remove(name);
  EXPECT_EQ(stack_.cache().bytes(), 0);
}

TEST_P(Fork, ADroppedBatchOfAForkLeavesItsPagesShared) {
  stack_.add("a");
  stack_.feed({{"a", 21}});
  stack_.fork("a", "b", 21);
  const std::int64_t bytes = stack_.cache().bytes();
  stack_.feed_and_drop({{"b", 30}});
  EXPECT_EQ(stack_.cache().bytes(), bytes);
  stack_.speculate({{"a", 4, 0}, {"b", 4, 0}});
  EXPECT_EQ(stack_.cache().bytes(), bytes);
  stack_.feed({{"b", 4}, {"a", 4}});
  for (const char* name : {"a", "b"}) EXPECT_EQ(stack_.difference_from_alone(name), "") << name;
}

TEST_P(Fork, OnlyTheFirstToGoOnCopiesAPage) {
  stack_.add("a");
  stack_.feed({{"a", 21}});
  const std::int64_t alone = stack_.cache().bytes();
  stack_.fork("a", "b", 21);
  const std::int64_t shared = stack_.cache().bytes();
  EXPECT_EQ(shared, alone);
  const std::int64_t rings = cache_cost(model_.config(), model_.layers(), 5).bytes_fixed;
  stack_.feed({{"b", 1}});
  const std::int64_t parted = stack_.cache().bytes();
  EXPECT_LE(parted - shared, rings + one_page_per_table(stack_.cache(), options()));
  stack_.feed({{"a", 1}});
  EXPECT_LE(stack_.cache().bytes(), parted + one_page_per_table(stack_.cache(), options()));
  stack_.feed({{"a", 19}, {"b", 19}});
  const std::int64_t both = stack_.cache().bytes();
  stack_.remove("b");
  const std::int64_t remaining = stack_.cache().bytes();
  Stack lone(model_, options());
  lone.add("a");
  lone.feed({{"a", 41}});
  EXPECT_EQ(remaining, lone.cache().bytes());
  EXPECT_LT(both, 2 * remaining);
}

TEST_P(Fork, AnEmptySequenceCanBeForked) {
  stack_.add("a");
  stack_.fork("a", "b", 0);
  EXPECT_EQ(stack_.cache().bytes(), 0);
  stack_.feed({{"b", 5}});
  stack_.feed({{"a", 7}, {"b", 2}});
  stack_.fork("a", "c", 0);
  stack_.feed({{"c", 3}});
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(stack_.difference_from_alone(name), "") << name;
}

INSTANTIATE_TEST_SUITE_P(AllSets, Fork,
                         testing::Combine(testing::ValuesIn(available_sets()), testing::ValuesIn(small_config_names())),
                         [](const auto& suite) { return joined(suite.param); });

TEST(ForkCost, DoesNotDependOnTheLengthThatIsShared) {
  for (const int ratio : {0, 1, 2}) {
    const Model model(Checkpoint::synthetic(one_layer(ratio)));
    for (const std::int64_t tokens : {64, 4096}) {
      Stack stack(model, options());
      stack.add("a");
      stack.feed({{"a", tokens}});
      const std::int64_t alone = stack.cache().bytes();
      stack.fork("a", "b", tokens);
      EXPECT_EQ(stack.cache().bytes(), alone) << tokens;
      const std::int64_t rings = cache_cost(model.config(), model.layers(), 5).bytes_fixed;
      stack.feed({{"b", 2}});
      EXPECT_LE(stack.cache().bytes() - alone, rings + one_page_per_table(stack.cache(), options())) << tokens;
      if (tokens > 64) continue;
      EXPECT_EQ(stack.difference_from_alone("b"), "");
    }
  }
}

TEST(ForkCost, GrowingInAPageOfItsOwnCopiesNothing) {
  const Model model(Checkpoint::synthetic(one_layer(1)));
  CacheOptions limited = options();
  Stack measure(model, limited);
  measure.add("a");
  measure.feed({{"a", 5}});  // one row into the second page
  {
    const Batch batch = measure.cache().begin({{measure.id("a"), 4}});  // two rows into the third
    limited.max_bytes = measure.cache().bytes();
  }
  Stack stack(model, limited);
  stack.add("a");
  stack.feed({{"a", 5}});
  const SequenceId id = stack.id("a");
  const std::byte* const page = Access::impl(stack.cache()).sequences.at(id.value).tables[1].rows().row(4);
  stack.feed({{"a", 4}});
  EXPECT_EQ(Access::impl(stack.cache()).sequences.at(id.value).tables[1].rows().row(4), page);
}

TEST(ForkPages, MoreThanAChunkOfPagesAreShared) {
  const Model model(Checkpoint::synthetic(one_layer(1)));
  CacheOptions single = options(110);
  single.page_rows = 1;
  Stack stack(model, single);
  stack.add("a");
  stack.feed({{"a", 600}});
  for (const std::int64_t tokens : {600, 514, 513, 512, 511, 510}) {
    SCOPED_TRACE(tokens);
    stack.fork("a", "b", tokens);
    stack.fork("b", "c", tokens);
    const std::int64_t bytes = stack.cache().bytes();
    stack.feed_and_drop({{"b", 4}, {"c", 4}});
    EXPECT_EQ(stack.cache().bytes(), bytes);
    stack.speculate({{"b", 5, 1}, {"c", 3, 2}});
    stack.feed({{"c", 2}});
    stack.truncate("b", tokens - 1);
    stack.feed({{"b", 3}});
    for (const char* name : {"b", "c"}) EXPECT_EQ(stack.difference_from_alone(name), "") << name;
    stack.remove("b");
    stack.remove("c");
  }
  stack.fork("a", "b", 511);
  stack.truncate("a", 512);
  stack.feed({{"a", 2}, {"b", 2}});
  for (const char* name : {"a", "b"}) EXPECT_EQ(stack.difference_from_alone(name), "") << name;
}

class ForkRefusal : public Cache {};

TEST_F(ForkRefusal, WhileTheSequenceIsInABatch) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  feed(cache, id, 10);
  const Batch batch = cache.begin({{id, 1}});
  const std::int64_t bytes = cache.bytes();
  EXPECT_TRUE(refuses([&] { cache.fork(id); }, ErrorCode::wrong_order, {"sequence 0", "batch"}));
  EXPECT_TRUE(refuses([&] { cache.fork(id, 0); }, ErrorCode::wrong_order, {"sequence 0", "batch"}));
  EXPECT_TRUE(refuses([&] { cache.truncate(id, 0); }, ErrorCode::wrong_order, {"sequence 0", "batch"}));
  EXPECT_EQ(cache.bytes(), bytes);
}

TEST_F(ForkRefusal, OfWhatDoesNotExist) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  feed(cache, id, 10);
  EXPECT_TRUE(refuses([&] { cache.fork(SequenceId{7}); }, ErrorCode::invalid_argument, {"sequence 7"}));
  EXPECT_TRUE(refuses([&] { cache.truncate(SequenceId{7}, 0); }, ErrorCode::invalid_argument, {"sequence 7"}));
  EXPECT_TRUE(refuses([&] { cache.restorable(SequenceId{7}); }, ErrorCode::invalid_argument, {"sequence 7"}));
  for (const std::int64_t tokens : {-1, 11}) {
    const std::vector<std::string> words = {"at " + std::to_string(tokens) + " tokens", "it can at: 0, 10"};
    EXPECT_TRUE(refuses([&] { cache.fork(id, tokens); }, ErrorCode::invalid_argument, words));
    EXPECT_TRUE(refuses([&] { cache.truncate(id, tokens); }, ErrorCode::invalid_argument, words));
  }
}

TEST_F(ForkRefusal, BeyondTheLimitsOfTheCache) {
  CacheOptions limited = options();
  limited.max_sequences = 2;
  limited.max_bytes = cache_cost(model_.config(), model_.layers(), limited).bytes_at(10);
  KvCache cache(model_, limited);
  const SequenceId id = cache.add();
  feed(cache, id, 10);
  const std::int64_t bytes = cache.bytes();
  const SequenceId child = cache.fork(id);  // takes nothing until it goes on
  EXPECT_EQ(cache.bytes(), bytes);
  EXPECT_TRUE(refuses(
      [&] {
        cache.begin({{child, 1}});
      },
      ErrorCode::limit_exceeded, {"max_bytes is " + std::to_string(limited.max_bytes)}));
  EXPECT_TRUE(refuses([&] { cache.fork(id, 0); }, ErrorCode::limit_exceeded, {"max_sequences is 2", "3"}));
  EXPECT_EQ(cache.bytes(), bytes);
}

}  // namespace
}  // namespace skim::test

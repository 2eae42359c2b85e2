// Claims: a batch misused is refused with a message that says what was found and expected, and can go on; whatever
// order batches, caches and models end in, and whichever threads run them, the results are those of a lone sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>

#include "base/access.hpp"
#include "cache/batch_impl.hpp"
#include "cache/cache_fixture.hpp"
#include "named_v41.hpp"

namespace skim::test {
namespace {

class Batches : public Cache {};
class Fault43 : public Cache {};
class Fault54 : public Cache {};

TEST_F(Batches, ABatchIsCommittedOnceAndOnlyWhenAllLayersRan) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  Batch batch = cache.begin({{id, 10}});
  for (const int layer : model_.layers()) {
    EXPECT_TRUE(refuses([&] { batch.commit(); }, ErrorCode::wrong_order, {"layer " + std::to_string(layer)}));
    forward(layer, batch, 0);
    EXPECT_TRUE(refuses([&] { forward(layer, batch, 0); }, ErrorCode::wrong_order,
                        {"layer " + std::to_string(layer) + " has run"}));
  }
  EXPECT_EQ(cache.length(id), 0);
  batch.commit();
  EXPECT_EQ(cache.length(id), 10);
  const std::vector<std::byte> state = state_bytes(cache, id);
  EXPECT_TRUE(refuses([&] { batch.commit(); }, ErrorCode::wrong_order, {"committed"}));
  EXPECT_TRUE(refuses([&] { forward(0, batch, 0); }, ErrorCode::wrong_order, {"committed"}));
  EXPECT_EQ(state_bytes(cache, id), state);
}

TEST_F(Batches, ACommittedBatchNoLongerHoldsItsSequences) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  std::optional<Batch> first(cache.begin({{id, 10}}));
  forward_all(*first, 0);
  first->commit();
  Batch second = cache.begin({{id, 1}});
  first.reset();  // must not release the sequence from the second batch
  ASSERT_TRUE(refuses([&] { cache.begin({{id, 1}}); }, ErrorCode::wrong_order, {"another batch"}));
  EXPECT_TRUE(refuses([&] { cache.remove(id); }, ErrorCode::wrong_order));
}

TEST_F(Batches, ACommittedBatchMayOutliveItsSequence) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  Batch batch = cache.begin({{id, 10}});
  forward_all(batch, 0);
  batch.commit();
  cache.remove(id);
  EXPECT_EQ(cache.bytes(), 0);
}

TEST_F(Batches, BatchesOfAnotherModelAreRefused) {
  const Model same_weights(Checkpoint::synthetic(named_v41("v41-tiny")));
  KvCache cache(same_weights, options());
  const SequenceId id = cache.add();
  Batch batch = cache.begin({{id, 3}});
  EXPECT_TRUE(refuses([&] { forward(0, batch, 0); }, ErrorCode::invalid_argument, {"another model"}));
  EXPECT_TRUE(refuses([&] { forward(99, batch, 0); }, ErrorCode::invalid_argument, {"layer 99"}));
  const Model copy = model_;
  KvCache shared(copy, options());
  Batch accepted = shared.begin({{shared.add(), 3}});
  EXPECT_NO_THROW(forward(0, accepted, 0));
}

TEST_F(Fault43, RowsBeyondTheBatchAreRefused) {
  KvCache cache(model_, options());
  Batch batch = cache.begin({{cache.add(), 3}});
  std::vector<bf16> x(8 * 200), out(8 * 200);
  using Shape = std::array<std::int64_t, 2>;
  const auto call = [&](Shape x_shape, Shape x_strides, Shape out_shape, Shape out_strides) {
    model_.forward(0, batch, View<const bf16, 2>(x.data(), x_shape, x_strides),
                   View<bf16, 2>(out.data(), out_shape, out_strides));
  };
  const Shape good{3, 128}, dense{128, 1};
  const auto refused = [&](const std::function<void()>& wrong, const std::vector<std::string>& words) {
    EXPECT_TRUE(refuses(wrong, ErrorCode::invalid_argument, words));
  };
  refused([&] { call({2, 128}, dense, good, dense); }, {"x has shape [2, 128]", "expected [3, 128]"});
  refused([&] { call({3, 127}, dense, good, dense); }, {"x has shape [3, 127]", "expected [3, 128]"});
  refused([&] { call(good, dense, {4, 128}, dense); }, {"out has shape [4, 128]", "expected [3, 128]"});
  refused([&] { call(good, {128, 2}, good, dense); }, {"x has strides [128, 2]", "expected"});
  refused([&] { call(good, {127, 1}, good, dense); }, {"x has strides [127, 1]", "128"});
  refused([&] { call(good, {-128, 1}, good, dense); }, {"x has strides [-128, 1]"});
  refused([&] { call(good, dense, good, {0, 1}); }, {"out has strides [0, 1]", "128"});
  EXPECT_NO_THROW(call(good, dense, good, dense));  // after all that the layer has not run
}

TEST_F(Batches, ABatchMayOutliveItsCache) {
  std::optional<KvCache> cache(std::in_place, model_, options());
  const SequenceId id = cache->add();
  feed(*cache, id, 5);
  Batch committed = cache->begin({{id, 4}}), dropped = cache->begin({{cache->add(), 4}});
  forward(0, dropped, 0);
  cache.reset();
  forward_all(committed, 5);
  EXPECT_NO_THROW(committed.commit());
}

TEST_F(Batches, WithoutNewRowsAForkSharesItsLastPageAgain) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  feed(cache, id, 21);
  const SequenceId child = cache.fork(id);
  const std::vector<std::byte> state = state_bytes(cache, id);
  const std::int64_t bytes = cache.bytes();
  for (const bool commits : {false, true}) {
    Batch batch = cache.begin({{child, 5}});
    EXPECT_GT(cache.bytes(), bytes);
    forward_all(batch, 21);
    if (commits) batch.commit(child, 0);
  }
  EXPECT_EQ(cache.bytes(), bytes);
  { const Batch both = cache.begin({{id, 3}, {child, 40}}); }
  EXPECT_EQ(cache.bytes(), bytes);
  feed(cache, child, 30);
  EXPECT_EQ(state_bytes(cache, id), state);
  feed(cache, id, 30);
  EXPECT_EQ(state_bytes(cache, id), state_bytes(cache, child));
  cache.remove(id);
  cache.remove(child);
  EXPECT_EQ(cache.bytes(), 0);
}

TEST_F(Batches, ADroppedBatchPutsBackAPageWhoseOtherOwnerIsGone) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  feed(cache, id, 21);
  const SequenceId child = cache.fork(id);
  {
    const Batch batch = cache.begin({{child, 5}});
    cache.remove(id);
  }
  feed(cache, child, 10);
  EXPECT_EQ(state_bytes(cache, child), run_alone(model_, options(), "a", {31}).state);
}

TEST_F(Batches, ACacheMayMoveWhileABatchIsOpen) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  Batch batch = cache.begin({{id, 21}});
  forward(0, batch, 0);
  KvCache moved = std::move(cache);
  Batch moved_batch = std::move(batch);
  for (const int layer : model_.layers()) {
    if (layer != 0) forward(layer, moved_batch, 0);
  }
  moved_batch.commit();
  EXPECT_EQ(moved.length(id), 21);
  EXPECT_EQ(state_bytes(moved, id), run_alone(model_, options(), "a", {21}).state);
}

TEST_F(Batches, ResultsMayReplaceTheirInputAndRowsMayLieApart) {
  KvCache cache(model_, options());
  const SequenceId a = cache.add(), b = cache.add(), c = cache.add();
  Batch plain = cache.begin({{a, 21}}), in_place = cache.begin({{b, 21}}), apart = cache.begin({{c, 21}});
  for (const int layer : model_.layers()) {
    const std::vector<bf16> x = states(layer, 0, 21), want = forward(layer, plain, 0);
    std::vector<bf16> both = x;
    model_.forward(layer, in_place, View<const bf16, 2>(both.data(), shape(21)), View<bf16, 2>(both.data(), shape(21)));
    EXPECT_TRUE(both == want) << "layer " << layer;

    const std::int64_t x_step = dim() + 7, out_step = dim() + 32;
    std::vector<bf16> wide_x(static_cast<std::size_t>(21 * x_step), bf16{0x7FC0}),
        wide_out(static_cast<std::size_t>(21 * out_step), bf16{0x1234});
    for (std::int64_t i = 0; i < 21; ++i) {
      std::copy_n(x.begin() + i * dim(), dim(), wide_x.begin() + i * x_step);
    }
    model_.forward(layer, apart, View<const bf16, 2>(wide_x.data(), shape(21), {x_step, 1}),
                   View<bf16, 2>(wide_out.data(), shape(21), {out_step, 1}));
    for (std::int64_t i = 0; i < 21; ++i) {
      EXPECT_TRUE(
          std::equal(want.begin() + i * dim(), want.begin() + (i + 1) * dim(), wide_out.begin() + i * out_step));
      EXPECT_EQ(
          std::count(wide_out.begin() + i * out_step + dim(), wide_out.begin() + (i + 1) * out_step, bf16{0x1234}), 32);
    }
  }
}

TEST_F(Batches, InputAndOutputMayNotOverlapOtherwise) {
  KvCache cache(model_, options());
  Batch batch = cache.begin({{cache.add(), 3}});
  std::vector<bf16> rows(4 * 128);
  EXPECT_TRUE(refuses(
      [&] {
        model_.forward(0, batch, View<const bf16, 2>(rows.data(), {3, 128}),
                       View<bf16, 2>(rows.data() + 128, {3, 128}));
      },
      ErrorCode::invalid_argument, {"overlap"}));
}

TEST_F(Batches, TwoModelsOfOneCheckpointAgree) {
  const Checkpoint checkpoint = Checkpoint::synthetic(named_v41("v41-tiny"));
  const Model first(checkpoint), second(checkpoint);
  EXPECT_EQ(difference(run_alone(first, options(), "a", {30, 1}), run_alone(second, options(), "a", {30, 1})), "");
}

TEST_F(Batches, BatchesMayRunOnFourThreadsAtOnce) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  KvCache cache(model_, options());
  std::vector<SequenceId> ids;
  ids.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) ids.push_back(cache.add());
  std::vector<std::map<int, std::vector<bf16>>> out(names.size());
  std::int64_t start = 0;
  for (const std::int64_t tokens : {30, 1, 17}) {
    std::vector<Batch> batches;
    batches.reserve(ids.size());
    for (const SequenceId id : ids) batches.push_back(cache.begin({{id, tokens}}));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < names.size(); ++i) {
      threads.emplace_back([&, i] {
        for (const int layer : model_.layers()) {
          const std::vector<bf16> rows = forward(layer, batches[i], states(layer, start, tokens, names[i]));
          out[i][layer].insert(out[i][layer].end(), rows.begin(), rows.end());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Batch& batch : batches) batch.commit();
    start += tokens;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Outcome serial = run_alone(model_, options(), names[i], {30, 1, 17});
    EXPECT_TRUE(out[i] == serial.out) << names[i];
    EXPECT_EQ(state_bytes(cache, ids[i]), serial.state) << names[i];
  }
}

TEST_F(Batches, WorkspaceCountsOpenBatchesToo) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  feed(cache, id, 100);
  const std::int64_t idle = cache.workspace_bytes();  // scratch that stays
  EXPECT_GT(idle, 0);
  Batch batch = cache.begin({{id, 100}});
  forward_all(batch, 100);
  EXPECT_GE(cache.workspace_bytes(), idle + Access::impl(batch).staged_bytes());
}

/// Replaces one selection, or the candidates, of the query at position 19.
struct Meddler final : Trace {
  std::vector<std::int32_t> replacement;
  bool of_candidates = false;

  void candidates(const TraceSelection& event) override {
    if (of_candidates && event.position == 19) event.chosen = replacement;
  }
  void selection(const TraceSelection& event) override {
    if (!of_candidates && event.position == 19) event.chosen = replacement;
  }
};

TEST_F(Fault54, PositionsThatDoNotExistAreNeverRead) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  const std::vector<bf16> want = run_alone(model_, options(), "a", {20}).out.at(4);
  const auto run = [&](const std::vector<std::int32_t>& replacement, bool of_candidates) {
    Batch batch = cache.begin({{id, 20}});
    Meddler meddler;
    meddler.replacement = replacement;
    meddler.of_candidates = of_candidates;
    EXPECT_TRUE(refuses([&] { forward(4, batch, 0, &meddler); }, ErrorCode::invalid_argument,
                        {"layer 4", "position 19", "expected"}))
        << testing::PrintToString(replacement);
    EXPECT_TRUE(forward(4, batch, 0) == want);  // tried again, as if nothing had happened
  };
  for (const bool of_candidates : {false, true}) {
    run({5, 4}, of_candidates);
    run({5, 5}, of_candidates);
    run({-1, 3}, of_candidates);
    run({1, of_candidates ? 10 : 20}, of_candidates);
    run({0, 1, 2, 3, 4, 5, 6, 7, 8}, of_candidates);
    run({0, std::numeric_limits<std::int32_t>::max()}, of_candidates);
  }
  Batch batch = cache.begin({{id, 20}});
  Meddler meddler;
  meddler.replacement = {0, 19};
  EXPECT_FALSE(forward(4, batch, 0, &meddler) == want);
}

/// Throws in the `fatal`-th call it gets.
struct Thrower final : Trace {
  int fatal = 0, calls = 0;

  void count() {
    if (calls++ == fatal) throw std::runtime_error("trace");
  }
  bool wants(std::string_view) override { return true; }
  void rows(const TraceRows&) override { count(); }
  void scores(const TraceScores&) override { count(); }
  void candidates(const TraceSelection&) override { count(); }
  void selection(const TraceSelection&) override { count(); }
  void progress(int, std::int64_t, std::int64_t) override { count(); }
};

TEST_F(Batches, ATraceThatThrowsLeavesTheBatchAsItWas) {
  KvCache cache(model_, options());
  const SequenceId id = cache.add();
  feed(cache, id, 21);
  const std::vector<std::byte> state = state_bytes(cache, id);
  const std::int64_t bytes = cache.bytes();
  const Outcome want = run_alone(model_, options(), "a", {21, 20});
  for (const int layer : model_.layers()) {
    Thrower counter;
    counter.fatal = -1;
    {
      Batch batch = cache.begin({{id, 20}});
      for (int earlier = 0; earlier < layer; ++earlier) forward(earlier, batch, 21);
      forward(layer, batch, 21, &counter);
    }
    for (int fatal = 0; fatal < counter.calls; fatal += fatal < 20 || fatal > counter.calls - 6 ? 1 : 7) {
      Batch batch = cache.begin({{id, 20}});
      for (int earlier = 0; earlier < layer; ++earlier) forward(earlier, batch, 21);
      Thrower thrower;
      thrower.fatal = fatal;
      EXPECT_THROW(forward(layer, batch, 21, &thrower), std::runtime_error);
      EXPECT_TRUE(refuses([&] { batch.commit(); }, ErrorCode::wrong_order, {"layer " + std::to_string(layer)}));
      if (fatal % 2 == 0) continue;  // dropped
      const std::vector<bf16> out = forward(layer, batch, 21), &all = want.out.at(layer);
      EXPECT_TRUE(std::equal(out.begin(), out.end(), all.begin() + 21 * dim())) << "layer " << layer;
    }
    EXPECT_EQ(state_bytes(cache, id), state);
    EXPECT_EQ(cache.bytes(), bytes);
  }
  feed(cache, id, 20);
  EXPECT_EQ(state_bytes(cache, id), want.state);
}

}  // namespace
}  // namespace skim::test

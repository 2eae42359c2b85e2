// What went wrong with whole layers in other ports: norms, candidates, sources, visibility, windows, company in a
// batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "attention/stack.hpp"
#include "formats/bf16.hpp"

namespace skim::test {
namespace {

CacheOptions options() { return {.max_tokens = 1024, .page_rows = 16, .threads = 1}; }

Outcome alone(const Model& model, const std::string& name, const std::vector<std::int64_t>& pieces) {
  return run_alone(model, options(), name, pieces);
}

std::vector<bf16> elements(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor tensor = checkpoint.tensor(name);
  std::vector<bf16> values(static_cast<std::size_t>(tensor.elements()));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// Rotated queries of ten tokens when the rows of head 1 are `factor` times as large.
Tape::Rows queries_with_head_scaled(float factor) {
  const V41Config config = one_layer(2);
  std::vector<bf16> wq_b = elements(Checkpoint::synthetic(config), "layers.0.attn.wq_b.weight");
  const auto head = static_cast<std::size_t>(config.head_dim) * static_cast<std::size_t>(config.q_lora_rank);
  for (std::size_t i = head; i < 2 * head; ++i) wq_b[i] = to_bf16(factor * to_float(wq_b[i]));
  const Model model(with_tensors(config, {{"layers.0.attn.wq_b.weight", wq_b}}));
  Stack stack(model, options());
  Tape tape({"q_rope"});
  stack.add("a");
  stack.watch(&tape);
  stack.feed({{"a", 10}});
  return tape.tensor(0, "q_rope");
}

TEST(Fault07, QueriesOfAHeadScaleWithItsWeights) {
  const auto width = static_cast<std::size_t>(one_layer(2).head_dim);
  const Tape::Rows plain = queries_with_head_scaled(1), fourfold = queries_with_head_scaled(4),
                   threefold = queries_with_head_scaled(3);
  for (const auto& [position, row] : plain) {
    double error = 0, size = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool scaled = i / width == 1;
      const float value = to_float(row[i]);
      EXPECT_EQ(to_float(fourfold.at(position)[i]), scaled ? 4 * value : value);  // exact in bf16
      const float three = to_float(threefold.at(position)[i]);
      if (scaled) {
        error += (three - 3 * value) * (three - 3 * value);
        size += 9 * value * value;
      } else {
        EXPECT_EQ(three, value);
      }
    }
    EXPECT_LT(std::sqrt(error / size), 0x1p-7) << position;  // weights, products and rotation are rounded to bf16
  }
}

TEST(Fault09, ConsumersChooseTheBestInsideKeptBlocks) {
  const V41Config config = std::get<V41Config>(small_config("tiny"));
  const Model model(Checkpoint::synthetic(config));
  const int source = config.candidate_source_layer, consumer = source + 1;
  const std::int64_t size = config.candidate_block_size;
  Stack stack(model, options());
  Tape tape({"index_score"});
  stack.add("a");
  stack.watch(&tape);
  stack.feed({{"a", 100}});
  const Outcome outcome = stack.outcome("a");
  bool source_looks_outside = false;
  for (const auto& [position, blocks] : outcome.candidates.at(source)) {
    const auto kept = [&, &list = blocks](std::int64_t entry) {
      return std::binary_search(list.begin(), list.end(), static_cast<std::int32_t>(entry / size));
    };
    EXPECT_EQ(static_cast<std::int64_t>(blocks.size()),
              std::min<std::int64_t>(position / size + 1, config.candidate_topk_blocks));
    EXPECT_TRUE(kept(position)) << "the newest block at " << position;
    const std::vector<float>& scores = tape.score_row(consumer, position);
    std::vector<std::int32_t> best;
    for (std::int32_t entry = 0; entry <= position; ++entry) {
      if (kept(entry)) best.push_back(entry);
    }
    std::stable_sort(best.begin(), best.end(), [&](std::int32_t a, std::int32_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    best.resize(std::min<std::size_t>(best.size(), static_cast<std::size_t>(config.index_topk)));
    std::sort(best.begin(), best.end());
    EXPECT_EQ(outcome.selected.at(consumer).at(position), best) << position;
    const auto& own = outcome.selected.at(source).at(position);
    source_looks_outside |= !std::all_of(own.begin(), own.end(), kept);
  }
  EXPECT_TRUE(source_looks_outside);
}

TEST(Fault18, PrefillAndDecodeRowsInOneCallAreEachTurnedBackOnce) {
  const Model model(Checkpoint::synthetic(small_config("tiny")));
  Stack stack(model, options());
  for (const char* name : {"a", "b", "c"}) stack.add(name);
  stack.feed({{"a", 5}, {"b", 6}, {"c", 7}});
  stack.feed({{"a", 3}, {"b", 1}, {"c", 1}});
  EXPECT_EQ(difference(alone(model, "a", {5, 3}), stack.outcome("a")), "");
  EXPECT_EQ(difference(alone(model, "b", {6, 1}), stack.outcome("b")), "");
  EXPECT_EQ(difference(alone(model, "c", {7, 1}), stack.outcome("c")), "");
}

/// The error of a call and what it says.
template <class Call>
std::pair<ErrorCode, std::string> error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode{}, "no error"};
}

TEST(Fault20, LayersWithoutTheirSourceAreRefused) {
  const Checkpoint checkpoint = Checkpoint::synthetic(small_config("tiny"));
  const auto [code, message] = error_of([&] { Model(checkpoint, {.layers = {3, 4, 5}, .kernels = {}}); });
  EXPECT_EQ(code, ErrorCode::invalid_argument);
  EXPECT_NE(message.find("layer 3 needs layer 2"), std::string::npos) << message;
}

/// Hidden states of the next `tokens` tokens of "a", and space for what comes out.
struct Rows {
  std::array<std::int64_t, 2> shape;
  std::vector<bf16> x, out;

  Rows(const std::string& name, int layer, std::int64_t tokens, std::int64_t dim)
      : shape{tokens, dim}, out(static_cast<std::size_t>(tokens * dim)) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::vector<bf16> state = hidden_state(name, layer, i, dim);
      x.insert(x.end(), state.begin(), state.end());
    }
  }
  void forward(const Model& model, int layer, Batch& batch) {
    model.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape));
  }
};

TEST(Fault20, ALayerBeforeItsSourceIsRefusedAndMayRunAfterIt) {
  const Model model(Checkpoint::synthetic(small_config("tiny")));
  const std::int64_t dim = hidden_dim(model.config());
  KvCache cache(model, options());
  Batch batch = cache.begin({{cache.add(), 20}});
  Rows rows("a", 0, 20, dim);
  for (const auto& [early, source] : std::map<int, int>{{3, 2}, {5, 4}, {6, 4}}) {
    const auto [code, message] = error_of([&, layer = early] { rows.forward(model, layer, batch); });
    EXPECT_EQ(code, ErrorCode::wrong_order);
    EXPECT_NE(message.find("layer " + std::to_string(source)), std::string::npos) << message;
  }
  rows.forward(model, 4, batch);
  const auto [code, message] =
      error_of([&] { rows.forward(model, 6, batch); });  // keys are there, the selection is not
  EXPECT_EQ(code, ErrorCode::wrong_order);
  EXPECT_NE(message.find("layer 5"), std::string::npos) << message;
  rows.forward(model, 2, batch);
  EXPECT_NO_THROW(rows.forward(model, 3, batch));
}

TEST(Fault20, InterleavedBatchesDoNotShareSelections) {
  const Model model(Checkpoint::synthetic(small_config("tiny")));
  KvCache cache(model, options());
  const SequenceId a = cache.add(), b = cache.add();
  Batch first = cache.begin({{a, 30}}), second = cache.begin({{b, 41}});
  const Outcome want_a = alone(model, "a", {30}), want_b = alone(model, "b", {41});
  for (const int layer : model.layers()) {
    Rows rows_a("a", layer, 30, hidden_dim(model.config())), rows_b("b", layer, 41, hidden_dim(model.config()));
    rows_a.forward(model, layer, first);
    rows_b.forward(model, layer, second);
    EXPECT_TRUE(rows_a.out == want_a.out.at(layer)) << "layer " << layer;
    EXPECT_TRUE(rows_b.out == want_b.out.at(layer)) << "layer " << layer;
  }
  second.commit();
  first.commit();
  EXPECT_EQ(state_bytes(cache, a), want_a.state);
  EXPECT_EQ(state_bytes(cache, b), want_b.state);
}

TEST(Fault32, EveryTokenSeesItsOwnNumberOfWholeGroups) {
  const Model model(Checkpoint::synthetic(one_layer(4)));
  const std::vector<std::int64_t> want = {0, 0, 0, 1, 1, 1, 1, 2, 2};
  for (const std::vector<std::int64_t>& pieces : std::vector<std::vector<std::int64_t>>{{9}, {2, 7}, {3, 1, 4, 1}}) {
    Stack stack(model, options());
    Tape tape({});
    stack.add("a");
    stack.watch(&tape);
    for (const std::int64_t piece : pieces) stack.feed({{"a", piece}});
    const Outcome outcome = stack.outcome("a");
    for (std::int64_t p = 0; p < 9; ++p) {
      const std::int64_t visible = want[static_cast<std::size_t>(p)];
      EXPECT_EQ(tape.limit(0, p), visible) << p;
      std::vector<std::int32_t> all(static_cast<std::size_t>(visible));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(outcome.selected.at(0).at(p), all) << p;
    }
  }
}

TEST(Fault32, ALaterTokenOfAGroupChangesNothingBeforeIt) {
  const Model model(Checkpoint::synthetic(one_layer(4)));
  const std::int64_t dim = hidden_dim(model.config());
  const std::vector<bf16> original = alone(model, "a", {20}).out.at(0);
  for (std::int64_t changed = 0; changed < 20; ++changed) {
    Stack stack(model, options());
    stack.add("a");
    stack.put("a", changed, "b");
    stack.feed({{"a", 20}});
    const std::vector<bf16> out = stack.outcome("a").out.at(0);
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + changed * dim, original.begin())) << changed;
    EXPECT_FALSE(std::equal(out.begin() + changed * dim, out.end(), original.begin() + changed * dim)) << changed;
  }
}

TEST(Fault39, AChunkFourTimesTheWindowEqualsPiecesInsideIt) {
  V41Config config = std::get<V41Config>(small_config("tiny"));
  config.window_size = 128;
  const Model model(Checkpoint::synthetic(config));
  const Outcome whole = alone(model, "a", {512});
  EXPECT_EQ(difference(whole, alone(model, "a", std::vector<std::int64_t>(32, 16))), "");
  EXPECT_EQ(difference(whole, alone(model, "a", {100, 312, 100})), "");
}

TEST(Fault40, TheSecondPieceOfAPromptIsAsGoodAsTheFirst) {
  for (const char* config : {"tiny", "v32_tiny"}) {
    const Model model(Checkpoint::synthetic(small_config(config)));
    const Outcome whole = alone(model, "a", {300});
    for (const std::int64_t size : {150, 128, 127, 1}) {
      std::vector<std::int64_t> pieces(static_cast<std::size_t>(300 / size), size);
      if (300 % size != 0) pieces.push_back(300 % size);
      EXPECT_EQ(difference(whole, alone(model, "a", pieces)), "") << "pieces of " << size << ", " << config;
    }
  }
}

TEST(Fault42, ASecondSequenceInTheBatchChangesNoBit) {
  for (const std::string& config : small_config_names()) {
    SCOPED_TRACE(config);
    const Model model(Checkpoint::synthetic(small_config(config)));
    Stack stack(model, options());
    for (const char* name : {"a", "b"}) stack.add(name);
    stack.feed({{"a", 12}, {"b", 11}});
    stack.feed({{"a", 1}, {"b", 1}});
    EXPECT_EQ(difference(alone(model, "a", {12, 1}), stack.outcome("a")), "");
    EXPECT_EQ(difference(alone(model, "b", {11, 1}), stack.outcome("b")), "");
  }
}

TEST(Fault44, ATokenBehindTheWindowIsForgotten) {
  V41Config config = one_layer(0);
  config.window_size = 128;
  const Model model(Checkpoint::synthetic(config));
  const std::vector<bf16> original = alone(model, "a", {200}).out.at(0);
  Stack stack(model, options());
  stack.add("a");
  stack.put("a", 0, "b");
  stack.feed({{"a", 200}});
  const std::vector<bf16> out = stack.outcome("a").out.at(0);
  for (std::int64_t p = 0; p < 200; ++p) {
    const auto first = p * config.dim, last = first + config.dim;
    EXPECT_EQ(std::equal(out.begin() + first, out.begin() + last, original.begin() + first), p >= 128) << p;
  }
}

TEST(Fault45, WithoutCompressedRowsTheWindowAloneIsAttendedTo) {
  // The same weights; at position 0 no rotation tells the layers apart.
  const Model compressing(Checkpoint::synthetic(one_layer(4))), plain(Checkpoint::synthetic(one_layer(0)));
  const Outcome outcome = alone(compressing, "a", {1});
  EXPECT_TRUE(outcome.out.at(0) == alone(plain, "a", {1}).out.at(0));
  EXPECT_TRUE(outcome.selected.at(0).at(0).empty());
}

TEST(Fault49, SequencesPackedIntoOneCallKeepTheirOwnPositions) {
  for (const std::string& config : small_config_names()) {
    const Model model(Checkpoint::synthetic(small_config(config)));
    Stack stack(model, options());
    for (const char* name : {"a", "b", "c"}) stack.add(name);
    stack.feed({{"a", 40}, {"b", 50}, {"c", 60}});
    EXPECT_EQ(difference(alone(model, "a", {40}), stack.outcome("a")), "") << config;
    EXPECT_EQ(difference(alone(model, "b", {50}), stack.outcome("b")), "") << config;
    EXPECT_EQ(difference(alone(model, "c", {60}), stack.outcome("c")), "") << config;
  }
}

}  // namespace
}  // namespace skim::test

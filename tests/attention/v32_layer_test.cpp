// V3.2 layers: steps are repeated by hand, from what a layer shows, the way the published code words them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "attention/rope.hpp"
#include "attention/stack.hpp"
#include "formats/bf16.hpp"
#include "kernels/registry.hpp"
#include "models/v32/layer.hpp"
#include "models/v32/v32.hpp"

namespace skim::test {
namespace {

V32Config one_layer_v32() {
  V32Config c = std::get<V32Config>(named_config("v32-tiny"));
  c.n_layers = 1;
  c.weight_type = WeightType::bf16;
  return c;
}

/// Matrix [rows, columns] of a bf16 tensor of layer 0, in double.
std::vector<double> matrix(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor tensor = checkpoint.tensor("model.layers.0.self_attn." + name);
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    bf16 value;
    std::memcpy(&value, tensor.bytes.data() + 2 * i, sizeof(value));
    values[i] = to_float(value);
  }
  return values;
}

/// Everything a layer shows of 30 tokens, the last one fed alone.
struct ShownLayer {
  V32Config config;
  Checkpoint checkpoint;
  Model model;
  Tape tape{
      {"qr", "q_rope", "kv_new", "k_pe_new", "index_q", "index_k_new", "index_weights", "index_k_scale_new", "o"}};
  Stack stack;

  explicit ShownLayer(const V32Config& c, std::int64_t max_tokens = 64)
      : config(c),
        checkpoint(Checkpoint::synthetic(c)),
        model(checkpoint),
        stack(model, {.max_tokens = max_tokens, .threads = 1}) {
    stack.add("a");
    stack.watch(&tape);
    stack.feed({{"a", 29}});
    stack.feed({{"a", 1}});
  }
};

/// o of the last token as the published prefill computes it, per-head keys and values, with a softmax scale of our own.
std::vector<double> published_output(ShownLayer& shown, double scale) {
  const V32Config& c = shown.config;
  const std::vector<double> wkv_b = matrix(shown.checkpoint, "kv_b_proj.weight");
  const std::vector<bf16>& query = shown.tape.tensor(0, "q_rope").at(29);
  const std::vector<std::int32_t> selected = shown.stack.outcome("a").selected.at(0).at(29);
  const auto nope = static_cast<std::size_t>(c.qk_nope_head_dim), rope = static_cast<std::size_t>(c.qk_rope_head_dim);
  const auto value = static_cast<std::size_t>(c.v_head_dim), rank = static_cast<std::size_t>(c.kv_lora_rank);
  std::vector<double> o;
  for (std::size_t head = 0; head < static_cast<std::size_t>(c.n_heads); ++head) {
    std::vector<double> sum(value);
    double denominator = 0;
    for (const std::int32_t position : selected) {
      const std::vector<bf16>& latent = shown.tape.tensor(0, "kv_new").at(position);
      const std::vector<bf16>& key = shown.tape.tensor(0, "k_pe_new").at(position);
      const auto through = [&](std::size_t row) {
        double dot = 0;
        for (std::size_t i = 0; i < rank; ++i)
          dot += wkv_b[(head * (nope + value) + row) * rank + i] * to_float(latent[i]);
        return dot;
      };
      double logit = 0;
      for (std::size_t i = 0; i < nope; ++i) logit += to_float(query[head * (nope + rope) + i]) * through(i);
      for (std::size_t i = 0; i < rope; ++i) {
        logit += to_float(query[head * (nope + rope) + nope + i]) * to_float(key[i]);
      }
      const double weight = std::exp(logit * scale);
      denominator += weight;
      for (std::size_t i = 0; i < value; ++i) sum[i] += weight * through(nope + i);
    }
    for (const double element : sum) o.push_back(element / denominator);
  }
  return o;
}

double relative_error(const std::vector<bf16>& got, const std::vector<double>& want) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(to_float(got[i]) - want[i], 2);
    size += want[i] * want[i];
  }
  return std::sqrt(difference / size);
}

TEST(Fault25, WithYarnTheSoftmaxScaleHasTheSquareOfMscale) {
  const V32Config released = std::get<V32Config>(named_config("v32"));
  EXPECT_NEAR(v32::softmax_scale(released, true), 0.135234, 5e-7);
  EXPECT_NEAR(v32::softmax_scale(released, false), 0.0721688, 5e-8);
  V32Config config = one_layer_v32();
  config.rope_factor = 40;
  for (const std::int64_t context : {16, 17}) {  // original_seq_len is 16
    config.original_seq_len = context == 16 ? 64 : 16;
    ShownLayer shown(config);
    const double plain = std::pow(48, -0.5), square = 1.873854;
    const double right = context == 16 ? plain : plain * square, wrong = context == 16 ? plain * square : plain;
    const std::vector<bf16>& o = shown.tape.tensor(0, "o").at(29);
    EXPECT_LT(relative_error(o, published_output(shown, right)), 1.2e-2);
    EXPECT_GT(relative_error(o, published_output(shown, wrong)), 5e-2);
  }
}

TEST(Fault26, TheScaleIsThatOfTheTrainedWidthNotOfTheAbsorbedOne) {
  V32Config config = one_layer_v32();
  config.original_seq_len = 0;
  ShownLayer shown(config);
  const std::vector<bf16>& o = shown.tape.tensor(0, "o").at(29);
  EXPECT_LT(relative_error(o, published_output(shown, std::pow(32 + 16, -0.5))), 1.2e-2);
  EXPECT_GT(relative_error(o, published_output(shown, std::pow(128 + 16, -0.5))), 5e-2);
}

/// Rows of one tensor, turned at their positions by the table that the layer should use.
std::vector<bf16> rotated(const ShownLayer& shown, std::vector<bf16> row, int width, std::int64_t position,
                          RotationStyle style) {
  const RopeTable table(v32::rope(shown.config, {}, true));
  std::vector<float> angles(static_cast<std::size_t>(2 * table.pairs()));
  const View<float, 3> cos_sin(angles.data(), {1, table.pairs(), 2});
  table.fill(std::array{position}, cos_sin);
  Context context(1);
  const std::array<std::int64_t, 3> shape{1, static_cast<std::int64_t>(row.size()) / width, width};
  choose_kernel_set("").kernels().rotate(context, {View<bf16, 3>(row.data(), shape), cos_sin, false, style});
  return row;
}

std::vector<bf16> project(const ShownLayer& shown, const std::string& name, std::vector<bf16> x) {
  const Kernels& kernels = choose_kernel_set("").kernels();
  Digest fingerprint;
  const LayerLoader loader(shown.checkpoint, 0, kernels, host_memory(), fingerprint);
  const Weight weight = loader.weight(name);
  std::vector<bf16> y(static_cast<std::size_t>(weight.format.out));
  Context context(1);
  kernels.linear(context, View<const bf16, 2>(x.data(), {1, weight.format.in}), weight,
                 View<bf16, 2>(y.data(), {1, weight.format.out}));
  return y;
}

/// Hadamard transform and fp8 codes of index vectors of `width`.
std::vector<bf16> index_codes(std::vector<bf16> vectors, int width) {
  const Kernels& kernels = choose_kernel_set("").kernels();
  Context context(1);
  const std::int64_t count = static_cast<std::int64_t>(vectors.size()) / width;
  kernels.hadamard(context, View<bf16, 2>(vectors.data(), {count, width}));
  const RowLayout layout{RowFormat::fp8_f32, width, 0, Fp8Scale::pow2};
  std::vector<std::byte> row(static_cast<std::size_t>(layout.bytes()));
  std::vector<float> codes(static_cast<std::size_t>(width));
  std::vector<bf16> all;
  for (std::int64_t i = 0; i < count; ++i) {
    pack_row(layout, vectors.data() + i * width, row.data());
    unpack_codes(layout, row.data(), codes.data());
    for (const float code : codes) all.push_back(to_bf16(code));
  }
  return all;
}

TEST(Fault21, MainQueriesTurnInAdjacentPairsAndIndexVectorsInHalvesOfTheirFront) {
  ShownLayer shown(one_layer_v32());
  for (const std::int64_t position : {1, 7, 29}) {
    const std::vector<bf16>& qr = shown.tape.tensor(0, "qr").at(position);
    const std::vector<bf16> query = project(shown, "q_b_proj.weight", qr);
    const std::vector<bf16> index = project(shown, "indexer.wq_b.weight", qr);
    EXPECT_EQ(shown.tape.tensor(0, "q_rope").at(position),
              rotated(shown, query, 48, position, RotationStyle::tail_adjacent));
    const std::vector<bf16>& codes = shown.tape.tensor(0, "index_q").at(position);
    EXPECT_EQ(codes, index_codes(rotated(shown, index, 64, position, RotationStyle::front_halves), 64));
    EXPECT_NE(codes, index_codes(rotated(shown, index, 64, position, RotationStyle::tail_adjacent), 64));
  }
}

TEST(Fault51, HeadWeightsStayFloat32) {
  ShownLayer shown(one_layer_v32());
  const std::vector<double> projection = matrix(shown.checkpoint, "indexer.weights_proj.weight");
  std::int64_t beyond_bf16 = 0;
  for (const auto& [position, weights] : shown.tape.floats(0, "index_weights")) {
    const std::vector<bf16> x = hidden_state("a", 0, position, shown.config.dim);
    for (std::size_t head = 0; head < weights.size(); ++head) {
      double dot = 0;
      for (std::size_t i = 0; i < x.size(); ++i) dot += projection[head * x.size() + i] * to_float(x[i]);
      // times heads^-1/2, width^-1/2 and the query's scale, all powers of two here except the width's
      const double ratio = std::log2(weights[head] / (dot * 0.5 * 0.125));
      EXPECT_NEAR(ratio, std::round(ratio), 1e-5);
      beyond_bf16 += round_bf16(weights[head]) != weights[head] ? 1 : 0;
    }
  }
  EXPECT_GT(beyond_bf16, 100);
}

/// Each layer has an indexer and caches of its own.
TEST(V32Layer, RunsWithoutAnyOtherLayer) {
  const Checkpoint checkpoint = Checkpoint::synthetic(named_config("v32-tiny"));
  const Model both(checkpoint), second(checkpoint, {.layers = {1}});
  const CacheOptions options{.max_tokens = 64, .threads = 1};
  EXPECT_EQ(run_alone(both, options, "a", {30}).out.at(1), run_alone(second, options, "a", {30}).out.at(1));
}

TEST(V32Layer, TheContextOfTheCacheDecidesOnYarn) {
  V32Config config = one_layer_v32();
  const auto outputs = [&](std::int64_t original, std::int64_t context) {
    config.original_seq_len = original;
    const Model model(Checkpoint::synthetic(config));
    return run_alone(model, {.max_tokens = context, .threads = 1}, "a", {10}).out.at(0);
  };
  const std::vector<bf16> plain = outputs(0, 64);
  EXPECT_EQ(outputs(16, 16), plain);
  EXPECT_NE(outputs(16, 17), plain);
  EXPECT_EQ(outputs(16, 17), outputs(16, 1 << 20));
}

TEST(V32Layer, AttendsToNoMoreThanTopkPositionsWhateverTheContext) {
  const Model model(Checkpoint::synthetic(one_layer_v32()));
  const Outcome outcome = run_alone(model, {.max_tokens = 256, .threads = 1}, "a", {200});
  for (const auto& [position, selected] : outcome.selected.at(0)) {
    EXPECT_EQ(static_cast<std::int64_t>(selected.size()), std::min<std::int64_t>(position + 1, 8));
    EXPECT_LE(selected.back(), position);
  }
}

/// Released sizes of heads and latents; the other extents are small.
class HeadCounts : public testing::TestWithParam<int> {};

TEST_P(HeadCounts, EverySetAgreesWithReference) {
  V32Config config = std::get<V32Config>(named_config("v32"));
  config.dim = 256;
  config.n_layers = 1;
  config.n_heads = GetParam();
  config.q_lora_rank = 128;
  config.index_n_heads = 4;
  config.index_topk = 16;
  const Checkpoint checkpoint = Checkpoint::synthetic(config);
  const CacheOptions options{.max_tokens = 8192, .threads = 2};
  const Outcome expected = run_alone(Model(checkpoint, {.kernels = "reference"}), options, "a", {20, 1});
  for (const KernelSet& set : kernel_sets()) {
    if (!is_available(set)) continue;
    const Outcome got = run_alone(Model(checkpoint, {.kernels = std::string(set.name)}), options, "a", {20, 1});
    EXPECT_EQ(got.selected, expected.selected) << set.name;
    std::vector<double> want;
    for (const bf16 value : expected.out.at(0)) want.push_back(to_float(value));
    EXPECT_LT(relative_error(got.out.at(0), want), 4e-2) << set.name;
  }
}

INSTANTIATE_TEST_SUITE_P(, HeadCounts, testing::Values(1, 8, 16, 20, 128), testing::PrintToStringParamName());

}  // namespace
}  // namespace skim::test

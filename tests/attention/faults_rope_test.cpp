// What went wrong with rotation and scale in other ports: steps of a layer are repeated by hand from what it shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "attention/rope.hpp"
#include "attention/stack.hpp"
#include "base/access.hpp"
#include "cache/cache_impl.hpp"
#include "formats/bf16.hpp"
#include "kernels/registry.hpp"
#include "models/v41/v41.hpp"
#include "named_v41.hpp"

namespace skim::test {
namespace {

CacheOptions options() { return {.max_tokens = 1024, .page_rows = 16, .threads = 1}; }

struct Rows {
  std::int64_t count, width;
  std::vector<bf16> values;

  Rows(std::int64_t rows, std::int64_t columns)
      : count(rows), width(columns), values(static_cast<std::size_t>(rows * columns)) {}
  explicit Rows(const Tape::Rows& shown) : Rows(0, static_cast<std::int64_t>(shown.begin()->second.size())) {
    for (const auto& [position, row] : shown) values.insert(values.end(), row.begin(), row.end());
    count = static_cast<std::int64_t>(shown.size());
  }
  View<bf16, 2> view() { return {values.data(), {count, width}}; }
};

/// Single steps of layer 0, computed with the kernel set that the model uses.
class Hand {
 public:
  explicit Hand(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  Rows linear(const std::string& name, Rows x) {
    const Tensor tensor = checkpoint_.tensor("layers.0.attn." + name);
    const WeightFormat format{.kind = WeightKind::bf16, .out = tensor.shape[0], .in = tensor.shape[1]};
    Rows y(x.count, format.out);
    kernels_.linear(context_, x.view(), kernels_.pack_weight(host_memory(), {format, tensor.bytes.data(), nullptr}),
                    y.view());
    return y;
  }
  Rows norm(const std::string& name, Rows x) {
    const Tensor tensor = checkpoint_.tensor("layers.0.attn." + name);
    std::vector<float> weight;
    for (std::int64_t i = 0; i < x.width; ++i) {
      bf16 value{};
      std::memcpy(&value, tensor.bytes.data() + i * 2, 2);
      weight.push_back(to_float(value));
    }
    Rows y(x.count, x.width);
    kernels_.rms_norm(context_, x.view(), weight.data(), static_cast<float>(as_v41(checkpoint_.config()).norm_eps),
                      y.view());
    return y;
  }
  /// Row i at position i * step, by the table of layers of this ratio.
  Rows rotate(Rows x, std::int64_t head, int ratio, std::int64_t step = 1) {
    const RopeTable table(v41::rope(checkpoint_.config(), {.ratio = ratio}, false));
    std::vector<std::int64_t> positions;
    for (std::int64_t i = 0; i < x.count; ++i) positions.push_back(i * step);
    std::vector<float> angles(static_cast<std::size_t>(x.count * table.pairs() * 2));
    const View<float, 3> cos_sin(angles.data(), {x.count, table.pairs(), 2});
    table.fill(positions, cos_sin);
    kernels_.rotate(context_, {View<bf16, 3>(x.values.data(), {x.count, x.width / head, head}), cos_sin, false});
    return x;
  }
  /// What is left of rows of `width` after a cache has kept them.
  static std::vector<bf16> stored(RowFormat format, Rows x, int width) {
    const RowLayout layout{format, width};
    std::vector<std::byte> packed(static_cast<std::size_t>(layout.bytes()));
    for (std::int64_t i = 0; i < x.count * x.width; i += width) {
      pack_row(layout, x.values.data() + i, packed.data());
      unpack_row(layout, packed.data(), x.values.data() + i);
    }
    return x.values;
  }

 private:
  Checkpoint checkpoint_;
  const Kernels& kernels_ = choose_kernel_set("").kernels();
  Context context_{1};
};

/// Forty tokens through one layer.
Tape feed(const Checkpoint& checkpoint) {
  const Model model(checkpoint);
  Tape tape({"qr", "q_rope", "window_kv", "latent", "index_q", "index_k_new", "compress_kv_new"});
  Stack stack(model, options());
  stack.add("a");
  stack.watch(&tape);
  stack.feed({{"a", 40}});
  return tape;
}

Rows hidden_states(std::int64_t dim) {
  Rows x(40, dim);
  for (std::int64_t i = 0; i < 40; ++i) std::ranges::copy(hidden_state("a", 0, i, dim), x.view().row(i));
  return x;
}

TEST(Fault08, IndexKeysComeFromTheLatentBeforeItsRotation) {
  const Checkpoint checkpoint = Checkpoint::synthetic(one_layer(4));
  const int width = as_v41(checkpoint.config()).index_head_dim;
  Tape tape = feed(checkpoint);
  Hand hand(checkpoint);
  const Rows latent(tape.tensor(0, "latent"));
  const auto key = [&](const Rows& from) {
    const Rows raw = hand.norm("indexer.k_norm.weight", hand.linear("indexer.wk.weight", from));
    return Hand::stored(RowFormat::fp4_e8m0, hand.rotate(raw, width, 4, 4), width);
  };
  EXPECT_TRUE(key(latent) == Rows(tape.tensor(0, "index_k_new")).values);
  EXPECT_FALSE(key(hand.rotate(latent, latent.width, 4, 4)) == Rows(tape.tensor(0, "index_k_new")).values);
}

/// The published formula in double precision.
double frequency(int pair, int width, double theta, std::int64_t original, double factor, double fast, double slow) {
  const double plain = std::pow(theta, -2.0 * pair / width);
  if (original == 0) return plain;
  const auto corrected = [&](double rotations) {
    return width * std::log(static_cast<double>(original) / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const double low = std::max(std::floor(corrected(fast)), 0.0);
  const double high = std::min(std::ceil(corrected(slow)), width - 1.0);
  const double ramp = std::clamp((pair - low) / std::max(high - low, 1e-3), 0.0, 1.0);
  return plain / factor * ramp + plain * (1 - ramp);
}

void expect_table(const V41Config& config, int ratio, double theta, std::int64_t original) {
  const RopeTable table(v41::rope(config, {.ratio = ratio}, false));
  ASSERT_EQ(table.pairs(), config.rope_head_dim / 2);
  const std::vector<std::int64_t> positions = {1, 128, 5000};
  std::vector<float> angles(static_cast<std::size_t>(3 * table.pairs() * 2));
  const View<float, 3> cos_sin(angles.data(), {3, table.pairs(), 2});
  table.fill(positions, cos_sin);
  for (std::int64_t row = 0; row < 3; ++row) {
    for (int pair = 0; pair < table.pairs(); ++pair) {
      const double angle = static_cast<double>(positions[static_cast<std::size_t>(row)]) *
                           frequency(pair, config.rope_head_dim, theta, original, config.rope_factor, config.beta_fast,
                                     config.beta_slow);
      const double allowed = 1e-6 + angle * 0x1p-20;  // float32 frequencies and angles
      EXPECT_NEAR(cos_sin(row, pair, 0), std::cos(angle), allowed) << "row " << row << " pair " << pair;
      EXPECT_NEAR(cos_sin(row, pair, 1), std::sin(angle), allowed) << "row " << row << " pair " << pair;
    }
  }
}

TEST(Fault23, LayersWithARatioHaveAnotherTableThanThoseWithout) {
  const V41Config config = named_v41("v41-flash");
  expect_table(config, 0, 1e4, 0);
  for (const int ratio : {1, 2, 4}) expect_table(config, ratio, 1.6e5, 65536);
}

TEST(Fault23, NoOriginalLengthMeansNoYarn) {
  V41Config config = named_v41("v41-flash");
  config.original_seq_len = 0;
  expect_table(config, 0, 1e4, 0);
  expect_table(config, 2, 1.6e5, 0);
}

TEST(Fault23, EverythingInALayerTurnsByItsOneTable) {
  for (const int ratio : {0, 4}) {
    SCOPED_TRACE(ratio);
    const Checkpoint checkpoint = Checkpoint::synthetic(one_layer(ratio));
    const V41Config& c = as_v41(checkpoint.config());
    Tape tape = feed(checkpoint);
    Hand hand(checkpoint);
    const Rows qr(tape.tensor(0, "qr"));
    const Rows q = hand.linear("wq_b.weight", qr);
    const Rows kv = hand.norm("kv_norm.weight", hand.linear("wkv.weight", hidden_states(c.dim)));
    for (const int table : {0, 4}) {
      const bool own = table == ratio;
      EXPECT_EQ(hand.rotate(q, c.head_dim, table).values == Rows(tape.tensor(0, "q_rope")).values, own);
      EXPECT_EQ(Hand::stored(RowFormat::fp8_e8m0, hand.rotate(kv, c.head_dim, table), c.head_dim) ==
                    Rows(tape.tensor(0, "window_kv")).values,
                own);
      if (ratio == 0) continue;
      const Rows index_q = hand.rotate(hand.linear("indexer.wq_b.weight", qr), c.index_head_dim, table);
      EXPECT_EQ(Hand::stored(RowFormat::fp4_e8m0, index_q, c.index_head_dim) == Rows(tape.tensor(0, "index_q")).values,
                own);
      const Rows compressed = hand.rotate(Rows(tape.tensor(0, "latent")), c.head_dim, table, ratio);
      EXPECT_EQ(
          Hand::stored(RowFormat::fp4_e4m3, compressed, c.head_dim) == Rows(tape.tensor(0, "compress_kv_new")).values,
          own);
    }
  }
}

TEST(Fault24, AGroupTurnsByThePositionOfItsFirstToken) {
  const Checkpoint checkpoint = Checkpoint::synthetic(one_layer(4));
  const int width = as_v41(checkpoint.config()).head_dim;
  Tape tape = feed(checkpoint);
  Hand hand(checkpoint);
  const Rows latent(tape.tensor(0, "latent"));
  ASSERT_EQ(latent.count, 10);
  const auto row_3 = [&](std::int64_t step) {
    const std::vector<bf16> rows = Hand::stored(RowFormat::fp4_e4m3, hand.rotate(latent, width, 4, step), width);
    return std::vector<bf16>(rows.begin() + 3 * width, rows.begin() + 4 * width);
  };
  EXPECT_TRUE(tape.tensor(0, "compress_kv_new").at(3) == row_3(4));   // position 12
  EXPECT_FALSE(tape.tensor(0, "compress_kv_new").at(3) == row_3(1));  // position 3
  EXPECT_FALSE(tape.tensor(0, "compress_kv_new").at(3) == row_3(0));  // none
}

/// Attention of the last of 21 tokens as the layer shows it, and as the kernel computes it with a scale of our own.
struct LastQuery {
  std::vector<bf16> shown, query, got;
  std::vector<std::int32_t> selected;
  std::vector<float> sink;

  LastQuery(int head_dim, float scale) {
    V41Config config = one_layer(2);
    config.head_dim = head_dim;
    const Checkpoint checkpoint = Checkpoint::synthetic(config);
    const Model model(checkpoint);
    Tape tape({"q_rope", "o"});
    Stack stack(model, options());
    stack.add("a");
    stack.watch(&tape);
    stack.feed({{"a", 20}});
    stack.feed({{"a", 1}});
    shown = tape.tensor(0, "o").at(20);
    query = tape.tensor(0, "q_rope").at(20);
    selected = stack.outcome("a").selected.at(0).at(20);
    const Tensor tensor = checkpoint.tensor("layers.0.attn.attn_sink");
    sink.resize(static_cast<std::size_t>(config.n_heads));
    std::memcpy(sink.data(), tensor.bytes.data(), tensor.bytes.size());

    const KvCache::Impl& impl = Access::impl(stack.cache());
    const RingLayout& window = impl.layout->layers[0].ring(kWindow);
    const TableLayout& rows = impl.layout->layers[0].table(kRows);
    const Sequence& sequence = impl.sequences.at(stack.id("a").value);
    got.resize(shown.size());
    const AttendShape shape{config.n_heads, head_dim, head_dim, scale, sink.data(), window.row, rows.row};
    const AttendQuery wanted{query.data(),
                             {sequence.rings[window.index].data(), window.kept, nullptr, 1 << 20, window.row_bytes},
                             13,
                             8,
                             sequence.tables[rows.index].rows(),
                             selected,
                             got.data()};
    Context context(1);
    choose_kernel_set("").kernels().attend(context, shape, {&wanted, 1});
  }
};

TEST(Fault25, TheScaleIsThatOfTheHeadAlone) {
  const float scale = 0.044194173824159216f;  // 512^-0.5
  const LastQuery plain(512, scale), stretched(512, scale * 1.873854f);
  EXPECT_EQ(plain.selected.size(), 8u);
  EXPECT_TRUE(plain.got == plain.shown);
  EXPECT_FALSE(stretched.got == stretched.shown);
}

TEST(Fault26, TheScaleIsThatOfTheTrainedWidth) {
  const LastQuery trained(96, 0.1020620726159658f), padded(96, 0.08838834764831845f);  // 96^-0.5, 128^-0.5
  EXPECT_TRUE(trained.got == trained.shown);
  EXPECT_FALSE(padded.got == padded.shown);
}

std::vector<bf16> identity(std::size_t width) {
  std::vector<bf16> values(width * width);
  for (std::size_t i = 0; i < width; ++i) values[i * (width + 1)] = to_bf16(1);
  return values;
}

/// Distance of the rotated tails, relative.
double tail_error(const std::vector<bf16>& a, const std::vector<bf16>& b) {
  double error = 0, size = 0;
  for (std::size_t i = 48; i < 64; ++i) {
    error += std::pow(to_float(a[i]) - to_float(b[i]), 2);
    size += std::pow(to_float(b[i]), 2);
  }
  return std::sqrt(error / size);
}

TEST(Fault28, TheOutputTurnsBackByThePositionOfTheQuery) {
  V41Config config = one_layer(0);
  config.dim = config.o_lora_rank = 64;
  config.n_heads = config.o_groups = config.window_size = 1;
  const Model model(with_tensors(config, {{"layers.0.attn.wo_a.weight", identity(64)},
                                          {"layers.0.attn.wo_b.weight", identity(64)},
                                          {"layers.0.attn.attn_sink", {to_bf16(-1e4f)}}}));
  const std::vector<bf16> token = hidden_state("a", 0, 0, 64);
  std::vector<bf16> x, out(40 * 64);
  for (int i = 0; i < 40; ++i) x.insert(x.end(), token.begin(), token.end());
  KvCache cache(model, options());
  Batch batch = cache.begin({{cache.add(), 40}});
  Tape tape({"window_kv", "o"});
  const std::array<std::int64_t, 2> shape{40, 64};
  model.forward(0, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape), &tape);

  // Every query sees one key, its own, and every token is the same: only the key's rotation tells positions apart.
  EXPECT_EQ(tape.tensor(0, "o"), tape.tensor(0, "window_kv"));
  const std::vector<bf16> unrotated(out.begin(), out.begin() + 64);
  double furthest = 0;
  for (std::int64_t p = 1; p < 40; ++p) {
    const std::vector<bf16> row(out.begin() + p * 64, out.begin() + (p + 1) * 64);
    EXPECT_TRUE(std::equal(row.begin(), row.begin() + 32, unrotated.begin())) << p;
    EXPECT_LT(tail_error(row, unrotated), 0x1p-4) << p;  // fp8 keeps four significant bits
    furthest = std::max(furthest, tail_error(tape.tensor(0, "o").at(p), unrotated));
  }
  EXPECT_GT(furthest, 0.5);
}

}  // namespace
}  // namespace skim::test

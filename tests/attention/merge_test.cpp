// Logarithms of sums, merging with attention computed elsewhere, and stopping a layer half way.
#include "skim/merge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "attention/stack.hpp"
#include "formats/bf16.hpp"
#include "kernels/registry.hpp"

namespace skim::test {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// One token, one head, one channel.
struct Part {
  float out, log_sum;
  std::vector<float> sink = {};

  AttentionPart view() const {
    return {View<const float, 3>(&out, {1, 1, 1}), View<const float, 2>(&log_sum, {1, 1}), sink};
  }
};

Part merged(const std::vector<Part>& parts, std::vector<float> sink = {}) {
  std::vector<AttentionPart> views;
  for (const Part& part : parts) views.push_back(part.view());
  Part result{-1, -1};
  merge_attention(views, sink, View<float, 3>(&result.out, {1, 1, 1}), View<float, 2>(&result.log_sum, {1, 1}));
  return result;
}

TEST(Fault56, TwoEmptyPartsGiveZerosAndAnEmptyPartChangesNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Part& nothing : {merged({}), merged({{0, kNothing}, {nan, kNothing}}), merged({{7, kNothing}}, {2.0f})}) {
    EXPECT_EQ(nothing.out, 0);
    EXPECT_EQ(nothing.log_sum, kNothing);
  }
  for (const Part& one : {merged({{0.3f, -4.5f}, {nan, kNothing}}), merged({{nan, kNothing}, {0.3f, -4.5f}})}) {
    EXPECT_EQ(one.out, 0.3f);
    EXPECT_EQ(one.log_sum, -4.5f);
  }
}

TEST(Fault57, LogarithmsAreNatural) {
  const Part result = merged({{0, std::log(2.0f)}, {1, std::log(8.0f)}});
  EXPECT_FLOAT_EQ(result.out, 0.8f);
  EXPECT_FLOAT_EQ(result.log_sum, std::log(10.0f));
}

TEST(Fault58, ASinkCountsOnceAndOnlyWhereThereAreRows) {
  const Part three{1, std::log(3.0f)}, five{1, std::log(5.0f)};
  EXPECT_FLOAT_EQ(merged({three, five}, {0}).out, 8.0f / 9);
  EXPECT_FLOAT_EQ(merged({three, five}, {0}).log_sum, std::log(8.0f));
  const Part with_sink{3.0f / 4, std::log(3.0f), {0}};
  EXPECT_FLOAT_EQ(merged({with_sink, five}).out, 8.0f / 9);
  EXPECT_FLOAT_EQ(merged({with_sink, five}).log_sum, std::log(8.0f));
  EXPECT_EQ(merged({{0, kNothing}}, {0}).out, 0);
}

TEST(Merge, LargeLogarithmsDoNotOverflow) {
  EXPECT_FLOAT_EQ(merged({{0, 5000}, {1, 5000}}).out, 0.5f);
  EXPECT_FLOAT_EQ(merged({{0, -5000}, {1, -5000}}).log_sum, -5000 + std::log(2.0f));
  EXPECT_EQ(merged({{0.25f, 3000}, {1, -3000}}).out, 0.25f);
}

TEST(Merge, APartOfAnotherShapeIsNamed) {
  std::vector<float> values(12);
  const View<float, 3> out(values.data(), {2, 3, 2});
  const View<float, 2> log_sum(values.data(), {2, 3});
  const AttentionPart good{out, log_sum, {}}, narrow{View<const float, 3>(values.data(), {2, 3, 1}), log_sum, {}};
  const std::vector<float> two_sinks(2);
  const auto message = [&](std::vector<AttentionPart> parts, std::span<const float> sink) {
    try {
      merge_attention(parts, sink, out, log_sum);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message({good, narrow}, {}).find("part 1 has shapes [2, 3, 1]"), std::string::npos);
  EXPECT_NE(message({good}, two_sinks).find("2 sinks, expected one per head, 3"), std::string::npos);
  EXPECT_NE(message({{out, log_sum, two_sinks}}, {}).find("part 0 has 2 sinks"), std::string::npos);
}

/// Two parts of two tokens, two heads and three channels, of which `values` and `sums` hold the first part.
struct TwoParts {
  std::vector<float> values, sums, other_values, other_sums;

  TwoParts() : values(12), sums(4), other_values(12), other_sums(4) {
    for (std::size_t i = 0; i < 12; ++i)
      values[i] = static_cast<float>(i), other_values[i] = static_cast<float>(20 - i);
    for (std::size_t i = 0; i < 4; ++i) sums[i] = 0.25f * static_cast<float>(i), other_sums[i] = 1 - sums[i];
  }
  static View<float, 3> rows(float* data) { return {data, {2, 2, 3}}; }
  static View<float, 2> logs(float* data) { return {data, {2, 2}}; }
  std::array<AttentionPart, 2> parts() {
    return {{{rows(values.data()), logs(sums.data()), {}}, {rows(other_values.data()), logs(other_sums.data()), {}}}};
  }
};

// FAULTS 116: 1.5 2 instead of 2 3
TEST(Fault116, TheResultMayTakeThePlaceOfAPart) {
  TwoParts apart;
  std::vector<float> want(12), want_sums(4);
  merge_attention(apart.parts(), {}, TwoParts::rows(want.data()), TwoParts::logs(want_sums.data()));
  for (const bool first : {true, false}) {
    TwoParts inside;
    std::vector<float>& out = first ? inside.values : inside.other_values;
    std::vector<float>& sums = first ? inside.sums : inside.other_sums;
    merge_attention(inside.parts(), {}, TwoParts::rows(out.data()), TwoParts::logs(sums.data()));
    EXPECT_EQ(out, want) << first;
    EXPECT_EQ(sums, want_sums) << first;
  }
}

TEST(Fault116, TheResultMayOverlapPartsInAnyOtherWay) {
  TwoParts apart;
  std::vector<float> want(12), want_sums(4);
  merge_attention(apart.parts(), {}, TwoParts::rows(want.data()), TwoParts::logs(want_sums.data()));
  for (const std::ptrdiff_t shift : {-5, -1, 1, 4}) {
    std::vector<float> memory(40, -1.0f);
    float* const part = memory.data() + 10;
    std::copy(apart.values.begin(), apart.values.end(), part);
    auto parts = apart.parts();
    parts[0].out = TwoParts::rows(part);
    std::vector<float> sums(4);
    merge_attention(parts, {}, TwoParts::rows(part + shift), TwoParts::logs(sums.data()));
    EXPECT_EQ(std::vector<float>(part + shift, part + shift + 12), want) << shift;
    std::vector<float> elsewhere(12);
    std::copy(apart.values.begin(), apart.values.end(), part);
    merge_attention(parts, {}, TwoParts::rows(elsewhere.data()), TwoParts::logs(part + 4 + shift));
    EXPECT_EQ(std::vector<float>(part + 4 + shift, part + 8 + shift), want_sums) << shift;
  }
}

TEST(Fault116, NullIsRefusedByName) {
  TwoParts two;
  std::vector<float> out(12), sums(4);
  const auto message = [&](std::span<const AttentionPart> parts, float* rows, float* logs,
                           std::span<const float> sink = {}) {
    try {
      merge_attention(parts, sink, TwoParts::rows(rows), TwoParts::logs(logs));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return std::string(error.what());
    }
    return std::string();
  };
  for (const std::size_t i : {0u, 1u}) {
    auto parts = two.parts();
    parts[i].out.data = nullptr;
    EXPECT_EQ(message(parts, out.data(), sums.data()),
              "merge: out of part " + std::to_string(i) + " has no data (null)");
    parts = two.parts();
    parts[i].log_sum.data = nullptr;
    EXPECT_EQ(message(parts, out.data(), sums.data()),
              "merge: log_sum of part " + std::to_string(i) + " has no data (null)");
  }
  EXPECT_EQ(message(two.parts(), nullptr, sums.data()), "merge: out has no data (null)");
  EXPECT_EQ(message(two.parts(), out.data(), nullptr), "merge: log_sum has no data (null)");
  const AttentionPart* const nowhere = nullptr;
  EXPECT_EQ(message({nowhere, 2}, out.data(), sums.data()), "merge: the list of 2 parts is null");
  const float* const no_sink = nullptr;
  EXPECT_EQ(message(two.parts(), out.data(), sums.data(), {no_sink, 2}),
            "merge: the sinks of the result have no data (null)");
  EXPECT_EQ(out, std::vector<float>(12)) << "nothing is written";
}

TEST(Fault116, ANanInALogarithmIsNotLost) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Part& result : {merged({{1, 0.5f}, {2, nan}}), merged({{1, nan}, {2, 0.5f}})}) {
    EXPECT_TRUE(std::isnan(result.out));
    EXPECT_TRUE(std::isnan(result.log_sum));
  }
}

/// Attention of every token, as a layer shows it.
class AttentionTape : public Trace {
 public:
  struct Row {
    std::vector<bf16> out;
    std::vector<float> log_sum, sink;
  };
  std::map<std::int64_t, Row> rows_by_position;

  bool wants(std::string_view name) override { return name == "attention"; }
  void attention(const TraceAttention& event) override {
    const std::int64_t heads = event.out.shape[1], width = event.out.shape[2];
    for (std::int64_t i = 0; i < event.out.shape[0]; ++i) {
      rows_by_position[event.first + i] = {{event.out.row(i), event.out.row(i) + heads * width},
                                           {event.log_sum.row(i), event.log_sum.row(i) + heads},
                                           {event.sink.begin(), event.sink.end()}};
    }
  }
};

class LogSum : public testing::TestWithParam<std::string> {};

std::vector<std::string> set_names() {
  std::vector<std::string> names;
  for (const KernelSet& set : kernel_sets()) {
    if (is_available(set)) names.emplace_back(set.name);
  }
  return names;
}

/// Rows that all have logit 0: the sum counts them, and leaves the sink out.
TEST_P(LogSum, CountsRowsOfEqualLogits) {
  V41Config config = one_layer(0);
  std::vector<bf16> zeros(static_cast<std::size_t>(config.n_heads * config.head_dim * config.q_lora_rank));
  const Model model(with_tensors(config, {{"layers.0.attn.wq_b.weight", zeros}}), {.kernels = GetParam()});
  AttentionTape tape;
  Stack stack(model, {.max_tokens = 64, .threads = 1});
  stack.add("a");
  stack.watch(&tape);
  stack.feed({{"a", 12}});
  for (const auto& [position, row] : tape.rows_by_position) {
    const auto rows = static_cast<float>(std::min<std::int64_t>(position + 1, config.window_size));
    for (const float sum : row.log_sum) EXPECT_NEAR(sum, std::log(rows), 1e-6) << position;
    EXPECT_EQ(row.sink.size(), 4u);
  }
}

/// Attention over 200 rows equals the merge of attention over the first 70 and the others, sink counted in one of them.
TEST_P(LogSum, PartsMergeToTheWhole) {
  const int heads = 3, width = 64;
  for (const AttendRounding rounding : {AttendRounding::exponentials, AttendRounding::logits}) {
    const bool v32 = rounding == AttendRounding::logits;
    const RowLayout layout = v32 ? RowLayout{RowFormat::fp8_f32, width, 32} : RowLayout{RowFormat::fp4_e4m3, width};
    std::vector<std::byte> rows(static_cast<std::size_t>(200 * layout.bytes()));
    for (std::int64_t i = 0; i < 200; ++i) {
      pack_row(layout, hidden_state("row", 0, i, width).data(), rows.data() + i * layout.bytes());
    }
    const std::vector<bf16> query = hidden_state("query", 0, 0, heads * width);
    const std::vector<float> sink = {0.5f, -1, 2};
    const std::byte* page = rows.data();
    const int value_width = v32 ? 32 : width;
    const auto attend = [&](std::int32_t first, std::int32_t count, const float* with_sink) {
      std::vector<std::int32_t> selected(static_cast<std::size_t>(count));
      std::iota(selected.begin(), selected.end(), first);
      std::vector<bf16> out(static_cast<std::size_t>(heads * value_width));
      std::vector<float> log_sum(heads);
      const AttendShape shape{heads, width, value_width, 0.2f, with_sink, {}, layout, rounding};
      const AttendQuery wanted{.query = query.data(),
                               .window = {},
                               .selected_rows = {&page, 200, layout.bytes()},
                               .selected = selected,
                               .out = out.data(),
                               .log_sum = log_sum.data()};
      Context context(1);
      choose_kernel_set(GetParam()).kernels().attend(context, shape, {&wanted, 1});
      std::vector<float> wide;
      for (const bf16 value : out) wide.push_back(to_float(value));
      return std::pair(wide, log_sum);
    };
    const float* own_sink = v32 ? nullptr : sink.data();
    const auto whole = attend(0, 200, own_sink), front = attend(0, 70, own_sink), back = attend(70, 130, nullptr);
    const std::array<std::int64_t, 3> shape{1, heads, value_width};
    const auto part = [&](const auto& computed, std::span<const float> its_sink) {
      return AttentionPart{View<const float, 3>(computed.first.data(), shape),
                           View<const float, 2>(computed.second.data(), {1, heads}), its_sink};
    };
    std::vector<float> out(static_cast<std::size_t>(heads * value_width)), log_sum(heads);
    const std::array parts{part(front, v32 ? std::span<const float>() : sink), part(back, {})};
    merge_attention(parts, {}, View<float, 3>(out.data(), shape), View<float, 2>(log_sum.data(), {1, heads}));
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], whole.first[i], 1e-2) << i;
    for (std::size_t h = 0; h < log_sum.size(); ++h) EXPECT_NEAR(log_sum[h], whole.second[h], 1e-5) << h;
  }
}

INSTANTIATE_TEST_SUITE_P(AllSets, LogSum, testing::ValuesIn(set_names()),
                         [](const auto& suite) { return suite.param; });

class ReplaceAttention final : public AttentionTape {
 public:
  void attention(const TraceAttention& event) override {
    AttentionTape::attention(event);
    for (std::int64_t i = 0; i < event.out.shape[0]; ++i) {
      std::fill_n(event.out.row(i), event.out.shape[1] * event.out.shape[2], bf16{0});
    }
  }
};

TEST(Merge, WhatATracePutsInPlaceGoesThroughTheOutputProjection) {
  for (const std::string& name : small_config_names()) {
    const Config config = small_config(name);
    const Model model(Checkpoint::synthetic(config));
    AttentionTape tape;
    ReplaceAttention replacing;
    for (Trace* trace : {static_cast<Trace*>(&tape), static_cast<Trace*>(&replacing)}) {
      Stack stack(model, {.max_tokens = 64, .threads = 1});
      stack.add("a");
      stack.watch(trace);
      stack.feed({{"a", 9}});
      for (const auto& [layer, out] : stack.outcome("a").out) {
        const bool zero = std::all_of(out.begin(), out.end(), [](bf16 value) { return (value.bits & 0x7FFF) == 0; });
        EXPECT_EQ(zero, trace == &replacing) << name << " layer " << layer;
      }
    }
    EXPECT_EQ(tape.rows_by_position.size(), 9u);
  }
}

/// Stops at the first question.
class Impatient final : public Trace {
 public:
  bool cancelled() override { return impatient; }
  bool impatient = true;
};

TEST(Cancellation, LeavesTheSequenceAsItWasAndTheBatchUsable) {
  for (const std::string& name : small_config_names()) {
    const Model model(Checkpoint::synthetic(small_config(name)));
    const CacheOptions options{.max_tokens = 64, .workspace_bytes = 0, .threads = 1};  // one token at a time
    Stack stack(model, options);
    stack.add("a");
    stack.feed({{"a", 7}});
    const std::vector<std::byte> before = state_bytes(stack.cache(), stack.id("a"));
    Impatient trace;
    stack.watch(&trace);
    try {
      stack.feed({{"a", 20}});
      ADD_FAILURE() << "not cancelled";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
    }
    EXPECT_EQ(state_bytes(stack.cache(), stack.id("a")), before);
    trace.impatient = false;
    stack.feed({{"a", 20}});
    EXPECT_EQ(state_bytes(stack.cache(), stack.id("a")), run_alone(model, options, "a", {27}).state) << name;
  }
}

}  // namespace
}  // namespace skim::test

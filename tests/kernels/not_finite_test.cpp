// Claims: no kernel set turns a NaN into a number, nor a finite result into an infinity that another set does not have,
// and all give the same answer where the softmax has nothing to weigh.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "attend_scene.hpp"
#include "formats/e8m0.hpp"

namespace skim::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kLowerHalves[] = {0, 1, 0x7FFF, 0x8000, 0xFFFF};

/// Every upper half with every one of kLowerHalves.
std::vector<float> every_upper_half() {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : kLowerHalves) values.push_back(std::bit_cast<float>(upper << 16 | lower));
  }
  return values;
}

std::vector<float> every_nan() {
  std::vector<float> values;
  for (const float value : every_upper_half()) {
    if (std::isnan(value)) values.push_back(value);
  }
  return values;
}

class Fault112 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault112, every_set(), set_name);

TEST(Fault112Scalar, RoundingKeepsEveryNan) {
  for (const float value : every_upper_half()) ASSERT_EQ(std::isnan(round_bf16(value)), std::isnan(value));
  for (const float value : every_nan()) ASSERT_EQ(std::signbit(round_bf16(value)), std::signbit(value));
}

// FAULTS 112: 0x7FFF8000 to 0x7FFFFFFF became -0.
TEST_P(Fault112, RoundingOfEveryUpperHalf) {
  const std::vector<float> values = every_upper_half();
  const auto count = static_cast<std::int64_t>(values.size());
  const WeightSource source{{.kind = WeightKind::f32, .out = count, .in = 1}, values.data(), nullptr};
  const Weight weight = kernels().pack_weight(memory(), source);
  for (const std::int64_t rows : {1, 20}) {
    const std::vector<bf16> ones(static_cast<std::size_t>(rows), to_bf16(1));
    std::vector<bf16> y(static_cast<std::size_t>(rows * count));
    Context context(1);
    kernels().linear(context, View<const bf16, 2>(ones.data(), {rows, 1}), weight,
                     View<bf16, 2>(y.data(), {rows, count}));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float value = values[i % values.size()];
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(to_float(y[i]))) << std::hex << std::bit_cast<std::uint32_t>(value);
      } else {
        ASSERT_EQ(y[i], to_bf16(0 + value)) << std::hex << std::bit_cast<std::uint32_t>(value);
      }
    }
  }
}

// FAULTS 112: q_b_proj.weight_scale_inv filled with 0xFF gave 0.2217, -0.5039, ...
TEST_P(Fault112, AWeightScaleThatIsAnyNan) {
  const std::vector<std::uint8_t> codes(128 * 128, 0x38);
  const std::vector<bf16> x(128, to_bf16(1));
  for (const float scale : every_nan()) {
    if ((std::bit_cast<std::uint32_t>(scale) >> 16 & 0x7F) % 63 != 0) continue;  // first, middle and last uppers
    const WeightFormat format{WeightKind::fp8_f32, 128, 128, 128, Fp8Scale::float32};
    const Weight weight = kernels().pack_weight(memory(), {format, codes.data(), &scale});
    std::vector<bf16> y(128);
    Context context(1);
    kernels().linear(context, View<const bf16, 2>(x.data(), {1, 128}), weight, View<bf16, 2>(y.data(), {1, 128}));
    for (const bf16 value : y) ASSERT_TRUE(std::isnan(to_float(value)));
  }
}

/// A row of V3.2 as a tester may fill it.
struct Latent {
  RowLayout layout;
  std::vector<std::byte> bytes;

  Latent(int width, int tail, std::uint8_t code, float scale)
      : layout{RowFormat::fp8_f32, width, tail}, bytes(static_cast<std::size_t>(layout.bytes()), std::byte{code}) {
    std::byte* at = bytes.data() + layout.code_bytes();
    for (int i = 0; i < layout.groups(); ++i, at += sizeof(scale)) std::memcpy(at, &scale, sizeof(scale));
    std::fill(at, bytes.data() + bytes.size(), std::byte{0});
  }
};

struct Attended {
  std::vector<bf16> out;
  std::vector<float> log_sum;
};

/// Attention of heads of ones, or zeros if the scale is 0, over rows [count] of one layout.
Attended attend_rows(const Kernels& kernels, RowLayout layout, const std::vector<std::byte>& rows, float scale,
                     AttendRounding rounding, const float* sink = nullptr) {
  constexpr int kHeads = 3;
  const int values = layout.quantized();
  const std::byte* page = rows.data();
  const auto count = static_cast<std::int32_t>(std::ssize(rows) / layout.bytes());
  std::vector<std::int32_t> selected;
  for (std::int32_t i = 0; i < count; ++i) selected.push_back(i);
  const std::vector<bf16> query(static_cast<std::size_t>(kHeads * layout.width), to_bf16(scale == 0 ? 0.0f : 1.0f));
  Attended result{std::vector<bf16>(static_cast<std::size_t>(kHeads * values), bf16{0x4242}),
                  std::vector<float>(kHeads)};
  const AttendShape shape{kHeads, layout.width, values, scale, sink, {}, layout, rounding};
  const AttendQuery wanted{.query = query.data(),
                           .window = {},
                           .selected_rows = {&page, count, layout.bytes()},
                           .selected = selected,
                           .out = result.out.data(),
                           .log_sum = result.log_sum.data()};
  Context context(1);
  kernels.attend(context, shape, {&wanted, 1});
  return result;
}

TEST_P(Fault112, ARowScaleThatIsAnyNan) {
  for (const float scale : every_nan()) {
    const Latent row(160, 32, 0x38, scale);
    const Attended got = attend_rows(kernels(), row.layout, row.bytes, 0.1f, AttendRounding::logits);
    for (const bf16 value : got.out) ASSERT_TRUE(std::isnan(to_float(value)));
  }
}

TEST_P(Fault112, AnIndexWeightThatIsAnyNan) {
  constexpr RowLayout kRow{RowFormat::fp4_e8m0, 64};
  std::vector<std::byte> rows(static_cast<std::size_t>(3 * kRow.bytes()));
  const std::vector<bf16> ones(64, to_bf16(1));
  for (int i = 0; i < 3; ++i) pack_row(kRow, ones.data(), rows.data() + i * kRow.bytes());
  const std::byte* page = rows.data();
  for (const float nan : every_nan()) {
    const float weights[] = {1, nan};
    float score = 0;
    const IndexQuery query{rows.data(), weights, {&page, 3, kRow.bytes()}, {.visible = 1, .blocks = {}}, &score};
    Context context(1);
    kernels().index_score(context, {2, kRow}, {&query, 1});
    ASSERT_TRUE(std::isnan(score)) << std::hex << std::bit_cast<std::uint32_t>(nan);
  }
}

class Fault114 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault114, every_set(), set_name);

// FAULTS 114: all logits -inf gave NaN in one set and zeros in others.
TEST_P(Fault114, WithoutALogitAboveMinusInfinityThereAreZeros) {
  const float sink[] = {0, 1, -1};
  for (const int count : {1, 64, 70}) {
    for (const AttendRounding rounding : {AttendRounding::logits, AttendRounding::exponentials}) {
      const Latent row(160, 32, 0x38, 1);
      std::vector<std::byte> rows;
      for (int i = 0; i < count; ++i) rows.insert(rows.end(), row.bytes.begin(), row.bytes.end());
      for (const float* with : {static_cast<const float*>(nullptr), sink}) {
        if (with != nullptr && rounding == AttendRounding::logits) continue;
        const Attended got = attend_rows(kernels(), row.layout, rows, -kInfinity, rounding, with);
        for (const bf16 value : got.out) ASSERT_EQ(to_float(value), 0) << count;
        for (const float sum : got.log_sum) ASSERT_EQ(sum, -kInfinity);
      }
    }
  }
}

TEST_P(Fault114, ARowOfLogitMinusInfinityCountsForNothing) {
  const RowLayout layout{RowFormat::fp8_f32, 160, 32};
  std::vector<bf16> low(160, to_bf16(-0x1p127f)), plain(160, to_bf16(0.5f));
  std::fill(low.begin(), low.begin() + 128, to_bf16(1));  // its tail alone makes the logit
  std::vector<std::byte> rows(static_cast<std::size_t>(2 * layout.bytes()));
  pack_row(layout, low.data(), rows.data());
  pack_row(layout, plain.data(), rows.data() + layout.bytes());
  for (const AttendRounding rounding : {AttendRounding::logits, AttendRounding::exponentials}) {
    const Attended got = attend_rows(kernels(), layout, rows, 1, rounding);
    for (const bf16 value : got.out) ASSERT_EQ(to_float(value), 0.5f);
  }
}

// FAULTS 114: a row scale of 2^120 gave infinities in one set and numbers in others.
TEST_P(Fault114, LargeAndSmallRowScales) {
  for (const int exponent : {-127, -126, -100, 110, 118, 119, 120, 121, 127}) {
    SCOPED_TRACE(exponent);
    const float scale = std::ldexp(1.0f, exponent);
    const Latent latent(160, 32, 0x38, scale);
    const Attended latents = attend_rows(kernels(), latent.layout, latent.bytes, 0, AttendRounding::logits);
    for (const bf16 value : latents.out) ASSERT_EQ(to_float(value), scale);
    const RowLayout layout{RowFormat::fp8_e8m0, 64};
    std::vector<std::byte> row(static_cast<std::size_t>(layout.bytes()), std::byte{0x38});
    std::fill(row.begin() + layout.code_bytes(), row.end(), static_cast<std::byte>(exponent + 127));
    const Attended window = attend_rows(kernels(), layout, row, 0, AttendRounding::exponentials);
    for (const bf16 value : window.out) ASSERT_EQ(to_float(value), scale);
  }
}

TEST_P(Fault114, IndexScalesThatOnlyTheirProductBringsBack) {
  constexpr RowLayout kRow{RowFormat::fp4_e8m0, 64};
  for (const int exponent : {-127, -120, 0, 120, 125, 127}) {
    SCOPED_TRACE(exponent);
    std::vector<std::byte> query(static_cast<std::size_t>(kRow.bytes()), std::byte{0x22}), key = query;  // ones
    std::fill(query.begin() + kRow.code_bytes(), query.end(), static_cast<std::byte>(127 + exponent));
    std::fill(key.begin() + kRow.code_bytes(), key.end(), static_cast<std::byte>(127 - std::max(exponent, -127)));
    const std::byte* page = key.data();
    const float weight = 1;
    float score = 0;
    const IndexQuery wanted{query.data(), &weight, {&page, 1, kRow.bytes()}, {.visible = 1, .blocks = {}}, &score};
    Context context(1);
    kernels().index_score(context, {1, kRow}, {&wanted, 1});
    ASSERT_EQ(score, 64);
  }
}

TEST_P(Fault114, AnIndexKeyWithAnInfinityScoresNan) {
  const RowLayout layout{RowFormat::fp8_f32, 128};
  std::vector<bf16> x(128, to_bf16(1));
  std::vector<std::byte> query(static_cast<std::size_t>(layout.bytes())), key = query;
  pack_row(layout, x.data(), query.data());
  x[77] = to_bf16(kInfinity);
  pack_row(layout, x.data(), key.data());
  const std::byte* page = key.data();
  const float weight = 1;
  float score = 0;
  const IndexQuery wanted{query.data(), &weight, {&page, 1, layout.bytes()}, {.visible = 1, .blocks = {}}, &score};
  Context context(1);
  kernels().index_score(context, {1, layout}, {&wanted, 1});
  EXPECT_TRUE(std::isnan(score)) << score;
}

}  // namespace
}  // namespace skim::test

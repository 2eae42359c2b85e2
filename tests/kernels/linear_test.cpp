// Claims: every kernel set multiplies by weights of all four kinds as docs/v41.md says, for any shape and row
// distance; a row's bits depend neither on the rows around it nor on threads; all e4m3 codes mean what they should.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "every_set.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "formats/naive.hpp"
#include "kernels/reference/reference.hpp"
#include "random_tensors.hpp"

namespace skim::test {
namespace {

struct Kind {
  WeightKind kind;
  int block;
  Fp8Scale input_scale;
};
constexpr Kind kKinds[] = {
    {WeightKind::bf16, 0, Fp8Scale::pow2},           {WeightKind::f32, 0, Fp8Scale::pow2},
    {WeightKind::fp8_e8m0, 32, Fp8Scale::pow2},      {WeightKind::fp8_f32, 128, Fp8Scale::float32},
    {WeightKind::fp8_f32, 128, Fp8Scale::pow2},      {WeightKind::fp8_e8m0, 24, Fp8Scale::pow2},
    {WeightKind::fp8_e8m0, 1000, Fp8Scale::float32},
};

/// A random checkpoint weight.
struct RandomWeight {
  WeightFormat format;
  std::vector<std::byte> values, scales;

  RandomWeight(Random& random, Kind kind, std::int64_t out, std::int64_t in)
      : format{kind.kind, out, in, kind.block, kind.input_scale} {
    for (std::int64_t i = 0; i < out * in; ++i) {
      const float value = random.normal();
      if (kind.kind == WeightKind::bf16)
        append(values, to_bf16(value));
      else if (kind.kind == WeightKind::f32)
        append(values, value);
      else
        append(values, e4m3_from_float(100 * value));
    }
    if (!format.is_fp8()) return;
    for (std::int64_t i = 0; i < format.block_rows() * format.block_columns(); ++i) {
      if (kind.kind == WeightKind::fp8_e8m0)
        append(scales, static_cast<std::uint8_t>(118 + random.below(4)));
      else
        append(scales, 0.01f + 0.01f * std::abs(random.normal()));
    }
  }
  WeightSource source() const { return {format, values.data(), scales.data()}; }
  double value(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * format.in + column;
    if (format.kind == WeightKind::bf16) return to_float(reinterpret_cast<const bf16*>(values.data())[i]);
    if (format.kind == WeightKind::f32) return reinterpret_cast<const float*>(values.data())[i];
    const std::int64_t block = row / format.block * format.block_columns() + column / format.block;
    const auto scale = static_cast<double>(format.kind == WeightKind::fp8_e8m0
                                               ? e8m0_to_float(std::to_integer<std::uint8_t>(scales[at(block)]))
                                               : reinterpret_cast<const float*>(scales.data())[block]);
    return scale * e4m3_to_float(std::to_integer<std::uint8_t>(values[at(i)]));
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  template <class T>
  static void append(std::vector<std::byte>& bytes, T value) {
    const auto raw = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }
};

/// x[in] as the layer sees it.
std::vector<double> seen_input(const WeightFormat& format, const bf16* x) {
  std::vector<double> seen(static_cast<std::size_t>(format.in));
  for (std::int64_t k = 0; k < format.in; ++k) seen[static_cast<std::size_t>(k)] = to_float(x[k]);
  for (std::int64_t first = 0; format.is_fp8() && first < format.in; first += format.block) {
    const std::span<const bf16> group(
        x + first, static_cast<std::size_t>(std::min<std::int64_t>(format.block, format.in - first)));
    const float scale = naive_fp8_scale(group, format.input_scale);
    for (std::size_t i = 0; i < group.size(); ++i) {
      seen[static_cast<std::size_t>(first) + i] = scale * naive_e4m3(to_float(group[i]) / scale);
    }
  }
  return seen;
}

/// All values [out, in].
std::vector<double> values_of(const RandomWeight& weight) {
  std::vector<double> values;
  for (std::int64_t row = 0; row < weight.format.out; ++row) {
    for (std::int64_t column = 0; column < weight.format.in; ++column) values.push_back(weight.value(row, column));
  }
  return values;
}

/// Checks one row of y = x w^T. A sum of `in` products, each the product of up to four rounded factors, may be off by
/// (in + 4) epsilon times the sum of magnitudes in any order of summation; then comes the rounding of the result.
template <class T>
void expect_row(const std::vector<double>& w, const std::vector<double>& x, const T* y) {
  std::vector<double> want, allowed;
  for (std::size_t first = 0; first < w.size(); first += x.size()) {
    double sum = 0, size = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double product = x[k] * w[first + k];
      sum += product;
      size += std::abs(product);
    }
    want.push_back(sum);
    allowed.push_back(static_cast<double>(x.size() + 4) * kFloatEpsilon * size +
                      (sizeof(T) == 2 ? 1.01 * kBf16Epsilon * std::abs(sum) : 0));
  }
  EXPECT_TRUE(close(y, want, allowed));
}

struct Shape {
  std::int64_t rows, in, out;
};
constexpr Shape kShapes[] = {{1, 1, 1},    {1, 33, 1},   {1, 33, 35},   {17, 33, 35}, {2, 7, 130},
                             {3, 512, 48}, {5, 129, 31}, {9, 1025, 65}, {4, 96, 24},  {67, 160, 25},
                             {130, 40, 3}, {6, 514, 29}, {5, 200, 160}, {2, 385, 257}};

class Linear : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Linear, every_set(), set_name);

TEST_P(Linear, FollowsFormula) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const Kind& kind : kKinds) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind.kind) << " block " << kind.block << " shape "
                                      << shape.rows << "x" << shape.in << "x" << shape.out);
      const RandomWeight source(random, kind, shape.out, shape.in);
      const Weight weight = kernels().pack_weight(memory(), source.source());
      GappedMatrix<bf16> x(shape.rows, shape.in, bf16{0x7FC0}), y(shape.rows, shape.out, bf16{0x1234});
      GappedMatrix<float> wide(shape.rows, shape.out, 42.0f);
      for (std::int64_t i = 0; i < shape.rows; ++i) {
        const std::vector<bf16> row = random.bf16s(shape.in, std::exp2(static_cast<float>(i % 5)));
        std::copy(row.begin(), row.end(), x.view().row(i));
      }
      Context context(2);
      kernels().linear(context, x.view(), weight, y.view());
      kernels().linear_f32(context, x.view(), weight, wide.view());
      const std::vector<double> values = values_of(source);
      for (std::int64_t i = 0; i < shape.rows; ++i) {
        const std::vector<double> seen = seen_input(source.format, x.view().row(i));
        expect_row(values, seen, y.view().row(i));
        expect_row(values, seen, wide.view().row(i));
      }
      EXPECT_TRUE(y.gaps_intact());
      EXPECT_TRUE(wide.gaps_intact());
    }
  }
}

/// Relative difference to the reference set over `rows` random rows.
double difference_to_reference(const Kernels& kernels, Memory& memory, Random& random, const Kind& kind,
                               const Shape& shape) {
  const RandomWeight source(random, kind, shape.out, shape.in);
  const std::vector<bf16> values = random.bf16s(shape.rows * shape.in);
  const View<const bf16, 2> x(values.data(), {shape.rows, shape.in});
  std::vector<float> got(static_cast<std::size_t>(shape.rows * shape.out)), reference = got;
  Context context(2);
  kernels.linear_f32(context, x, kernels.pack_weight(memory, source.source()),
                     View<float, 2>(got.data(), {shape.rows, shape.out}));
  reference::kernels().linear_f32(context, x, reference::kernels().pack_weight(host_memory(), source.source()),
                                  View<float, 2>(reference.data(), {shape.rows, shape.out}));
  return relative_error(got.data(), {reference.begin(), reference.end()});
}

TEST_P(Linear, AgreesWithTheReferenceSet) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const Kind& kind : kKinds) {
    EXPECT_LE(difference_to_reference(kernels(), memory(), random, kind, {9, 200, 160}), 8 * kFloatEpsilon)
        << "kind " << static_cast<int>(kind.kind) << " block " << kind.block;
  }
}

TEST_P(Linear, RowBitsDependOnTheRowAlone) {
  Random random;
  SCOPED_TRACE(random.trace());
  constexpr std::int64_t kRows = 37, kIn = 1100, kOut = 160;
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind.kind) << " block " << kind.block);
    const RandomWeight source(random, kind, kOut, kIn);
    const Weight weight = kernels().pack_weight(memory(), source.source());
    const std::vector<bf16> values = random.bf16s(kRows * kIn);
    const View<const bf16, 2> x(values.data(), {kRows, kIn});
    std::vector<float> together(kRows * kOut), threaded(kRows * kOut), apart(kRows * kOut);
    Context one(1), two(2);
    kernels().linear_f32(one, x, weight, View<float, 2>(together.data(), {kRows, kOut}));
    kernels().linear_f32(two, x, weight, View<float, 2>(threaded.data(), {kRows, kOut}));
    const View<float, 2> y(apart.data(), {kRows, kOut});
    for (std::int64_t first = 0, rows = 1; first < kRows; first += rows, rows = rows % 5 + 1) {
      rows = std::min(rows, kRows - first);
      kernels().linear_f32(one, x.rows(first, rows), weight, y.rows(first, rows));
    }
    EXPECT_TRUE(same_bits(together.data(), threaded.data(), kRows * kOut));
    EXPECT_TRUE(same_bits(together.data(), apart.data(), kRows * kOut));
  }
}

TEST_P(Linear, ManyRowsHaveTheBitsOfOne) {
  Random random;
  SCOPED_TRACE(random.trace());
  constexpr std::int64_t kRows = 1000, kIn = 70, kOut = 40;
  const RandomWeight source(random, kKinds[2], kOut, kIn);
  const Weight weight = kernels().pack_weight(memory(), source.source());
  const std::vector<bf16> values = random.bf16s(kRows * kIn);
  const View<const bf16, 2> x(values.data(), {kRows, kIn});
  std::vector<bf16> together(kRows * kOut), apart(kRows * kOut);
  Context one(1), two(2);
  kernels().linear(two, x, weight, View<bf16, 2>(together.data(), {kRows, kOut}));
  for (std::int64_t i = 0; i < kRows; ++i) {
    kernels().linear(one, x.rows(i, 1), weight, View<bf16, 2>(apart.data() + i * kOut, {1, kOut}));
  }
  EXPECT_TRUE(same_bits(together.data(), apart.data(), kRows * kOut));
}

TEST_P(Linear, NanStaysInItsRow) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const Kind& kind : kKinds) {
    const RandomWeight source(random, kind, 30, 90);
    const Weight weight = kernels().pack_weight(memory(), source.source());
    std::vector<bf16> values = random.bf16s(7 * 90);
    values[3 * 90 + 50] = bf16{0x7FC0};
    std::vector<float> y(7 * 30);
    Context context(1);
    kernels().linear_f32(context, View<const bf16, 2>(values.data(), {7, 90}), weight,
                         View<float, 2>(y.data(), {7, 30}));
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 30 == 3) << "row " << i / 30;
  }
}

TEST_P(Linear, EveryCodeHasItsValue) {
  // Column c holds code c once, at element c mod 37, and zeros elsewhere; an input of ones is exact in e4m3. Sets may
  // treat weights without NaN in another way.
  constexpr std::int64_t kIn = 37, kOut = 256;
  for (const bool with_nan : {true, false}) {
    std::vector<std::uint8_t> codes(kIn * kOut), scales(static_cast<std::size_t>(8 * 2), 127);
    std::vector<double> want;
    for (std::int64_t c = 0; c < kOut; ++c) {
      const auto code = static_cast<std::uint8_t>(with_nan || c % 128 != 127 ? c : 0);
      codes[static_cast<std::size_t>(c * kIn + c % kIn)] = code;
      want.push_back(e4m3_to_float(code));
    }
    const Weight weight = kernels().pack_weight(
        memory(), {{WeightKind::fp8_e8m0, kOut, kIn, 32, Fp8Scale::pow2}, codes.data(), scales.data()});
    const std::vector<bf16> ones(kIn, to_bf16(1));
    std::vector<float> y(kOut);
    Context context(1);
    kernels().linear_f32(context, View<const bf16, 2>(ones.data(), {1, kIn}), weight,
                         View<float, 2>(y.data(), {1, kOut}));
    EXPECT_TRUE(close(y.data(), want, std::vector<double>(kOut, 0.0))) << (with_nan ? "with NaN" : "without NaN");
  }
}

TEST_P(Linear, ScalesAtTheEndsOfTheirRange) {
  // 2^-127 to 2^127 and NaN: one block of 32 columns each.
  constexpr std::int64_t kIn = 32, kOut = 32;
  for (const int scale : {0, 1, 20, 126, 127, 130, 226, 228, 254, 255}) {
    const std::vector<std::uint8_t> codes(kIn * kOut, e4m3_from_float(0.5f));
    const auto byte = static_cast<std::uint8_t>(scale);
    const Weight weight =
        kernels().pack_weight(memory(), {{WeightKind::fp8_e8m0, kOut, kIn, 32, Fp8Scale::pow2}, codes.data(), &byte});
    std::vector<bf16> x(kIn, bf16{0});
    x[3] = to_bf16(1);
    std::vector<float> y(kOut);
    Context context(1);
    kernels().linear_f32(context, View<const bf16, 2>(x.data(), {1, kIn}), weight, View<float, 2>(y.data(), {1, kOut}));
    EXPECT_TRUE(close(y.data(), std::vector<double>(kOut, 0.5 * static_cast<double>(e8m0_to_float(byte))),
                      std::vector<double>(kOut, 0.0)))
        << "scale " << scale;
  }
}

TEST_P(Linear, LargeShapesAgreeWithTheReferenceSet) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const std::size_t kind : {0u, 2u, 3u}) {
    EXPECT_LE(difference_to_reference(kernels(), memory(), random, kKinds[kind], {141, 808, 330}), 32 * kFloatEpsilon)
        << "kind " << kind;
  }
}

TEST_P(Linear, GroupsAreProductsOfTheirColumns) {
  Random random;
  SCOPED_TRACE(random.trace());
  constexpr std::int64_t kGroups = 5, kIn = 72, kInGap = 8, kOut = 40, kOutGap = 3;
  for (const std::int64_t rows : {1, 4, 37}) {
    for (const std::size_t kind : {0u, 2u, 3u, 5u}) {
      std::vector<Weight> weights;
      for (std::int64_t g = 0; g < kGroups; ++g) {
        weights.push_back(kernels().pack_weight(memory(), RandomWeight(random, kKinds[kind], kOut, kIn).source()));
      }
      const std::vector<bf16> x = random.bf16s(rows * kGroups * (kIn + kInGap));
      const std::int64_t x_row = kGroups * (kIn + kInGap), y_row = kGroups * (kOut + kOutGap);
      std::vector<bf16> together(static_cast<std::size_t>(rows * y_row), bf16{0x3F80}), apart = together;
      Context one(1), two(2);
      kernels().linear_groups(two, {x.data(), {rows, kGroups, kIn}, {x_row, kIn + kInGap, 1}}, weights,
                              {together.data(), {rows, kGroups, kOut}, {y_row, kOut + kOutGap, 1}});
      for (std::int64_t g = 0; g < kGroups; ++g) {
        kernels().linear(one, {x.data() + g * (kIn + kInGap), {rows, kIn}, {x_row, 1}},
                         weights[static_cast<std::size_t>(g)],
                         {apart.data() + g * (kOut + kOutGap), {rows, kOut}, {y_row, 1}});
      }
      EXPECT_TRUE(same_bits(apart.data(), together.data(), rows * y_row)) << rows << " rows, kind " << kind;
    }
  }
}

class Fault06 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault06, every_set(), set_name);

TEST_P(Fault06, ScalesBelongToBlocksOf32) {
  const std::vector<std::uint8_t> codes(96 * 64, e4m3_from_float(1)), scales = {127, 128, 129, 130, 131, 132};
  const Weight weight = kernels().pack_weight(
      memory(), {{WeightKind::fp8_e8m0, 96, 64, 32, Fp8Scale::pow2}, codes.data(), scales.data()});
  std::vector<bf16> x(64, bf16{0});
  Context context(1);
  for (std::size_t c : {0u, 31u, 32u, 63u}) {
    std::fill(x.begin(), x.end(), bf16{0});
    x[c] = to_bf16(1);
    std::vector<bf16> y(96);
    kernels().linear(context, View<const bf16, 2>(x.data(), {1, 64}), weight, View<bf16, 2>(y.data(), {1, 96}));
    for (std::size_t r = 0; r < 96; ++r) EXPECT_EQ(to_float(y[r]), std::exp2(static_cast<float>(r / 32 * 2 + c / 32)));
  }
}

TEST_P(Fault06, Float32ScalesBelongToBlocksOf128WhereTheGridDoesNotDivide) {
  const std::vector<std::uint8_t> codes(160 * 200, e4m3_from_float(1));
  const std::vector<float> scales = {0.7f, 1.1f, 1.3f, 1.7f};
  Context context(1);
  for (const Fp8Scale kind : {Fp8Scale::float32, Fp8Scale::pow2}) {
    const Weight weight =
        kernels().pack_weight(memory(), {{WeightKind::fp8_f32, 160, 200, 128, kind}, codes.data(), scales.data()});
    for (std::size_t c : {0u, 127u, 128u, 199u}) {
      std::vector<bf16> x(200, bf16{0});
      x[c] = to_bf16(1);
      std::vector<float> y(160);
      kernels().linear_f32(context, View<const bf16, 2>(x.data(), {1, 200}), weight,
                           View<float, 2>(y.data(), {1, 160}));
      for (std::size_t r = 0; r < 160; ++r) {
        const float want = scales[r / 128 * 2 + c / 128];
        EXPECT_NEAR(y[r], want, 4 * kFloatEpsilon * want) << r << ", " << c;
      }
    }
  }
}

}  // namespace
}  // namespace skim::test

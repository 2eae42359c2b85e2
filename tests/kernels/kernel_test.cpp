// Claims: norms, rotation, Hadamard transform, pooling and packing of every kernel set follow their formulas, on
// strided views too; rotation touches the pairs of its style alone and is undone by its inverse; packing crosses page
// boundaries and touches no other row.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "every_set.hpp"
#include "kernels/reference/reference.hpp"
#include "random_tensors.hpp"

namespace skim::test {
namespace {

class Hadamard : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Hadamard, every_set(), set_name);

TEST_P(Hadamard, FollowsTheDirectSumAndUndoesItself) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t width : {1, 2, 4, 32, 64, 128}) {
    for (const std::int64_t rows : {1, 3, 70}) {
      SCOPED_TRACE(testing::Message() << rows << " rows of width " << width);
      GappedMatrix<bf16> x(rows, width, bf16{0x7FC0});
      std::vector<std::vector<bf16>> before;
      for (std::int64_t i = 0; i < rows; ++i) {
        before.push_back(random.bf16s(width, std::exp2(static_cast<float>(4 * (i % 5) - 8))));
        std::copy(before.back().begin(), before.back().end(), x.view().row(i));
      }
      Context one(1), two(2);
      kernels().hadamard(two, x.view());
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::vector<bf16>& row = before[static_cast<std::size_t>(r)];
        std::vector<double> want, allowed, values;
        for (std::size_t i = 0; i < row.size(); ++i) {
          double sum = 0, size = 0;
          for (std::size_t j = 0; j < row.size(); ++j) {
            const double value = to_float(row[j]);
            sum += std::popcount(i & j) % 2 == 0 ? value : -value;
            size += std::abs(value);
          }
          const double scale = 1 / std::sqrt(static_cast<double>(width));
          values.push_back(to_float(row[i]));
          want.push_back(scale * sum);
          allowed.push_back(kBf16Epsilon * std::abs(want.back()) +
                            (static_cast<double>(width) + 2) * kFloatEpsilon * scale * size);
        }
        EXPECT_TRUE(close(x.view().row(r), want, allowed)) << "row " << r;
        std::vector<bf16> again = row;
        const View<bf16, 2> alone(again.data(), {1, width});
        kernels().hadamard(one, alone);
        EXPECT_TRUE(same_bits(again.data(), x.view().row(r), width));
        // The transform keeps lengths, so the two roundings add up.
        kernels().hadamard(one, alone);
        EXPECT_LE(relative_error(again.data(), values), 2.1 * kBf16Epsilon) << "row " << r;
      }
      EXPECT_TRUE(x.gaps_intact());
    }
  }
}

TEST_P(Hadamard, RowsOfTheMatrixAreInNaturalOrder) {
  std::vector<bf16> x;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) x.push_back(to_bf16(i == j ? 2 : 0));
  }
  Context context(1);
  kernels().hadamard(context, View<bf16, 2>(x.data(), {4, 4}));
  const float sylvester[] = {1, 1, 1, 1, 1, -1, 1, -1, 1, 1, -1, -1, 1, -1, -1, 1};
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(to_float(x[i]), sylvester[i]) << "row " << i / 4;
}

TEST_P(Hadamard, HasTheBitsOfTheReference) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t width : {2, 8, 16, 32, 64, 128}) {
    std::vector<bf16> got = random.bf16s(7 * width), want = got;
    Context context(2);
    kernels().hadamard(context, View<bf16, 2>(got.data(), {7, width}));
    reference::hadamard(context, View<bf16, 2>(want.data(), {7, width}));
    EXPECT_TRUE(same_bits(got.data(), want.data(), std::ssize(got))) << width;
  }
}

class Rotate : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Rotate, every_set(), set_name);

std::vector<float> cos_sin_table(Random& random, std::int64_t rows, std::int64_t pairs) {
  std::vector<float> table;
  for (std::int64_t i = 0; i < rows * pairs; ++i) {
    const float angle = 3 * random.normal();
    table.push_back(std::cos(angle));
    table.push_back(std::sin(angle));
  }
  return table;
}

constexpr RotationStyle kStyles[] = {RotationStyle::tail_adjacent, RotationStyle::front_halves,
                                     RotationStyle::front_adjacent};

/// Where a head of `width` elements has the two parts of a pair.
std::array<std::int64_t, 2> parts_of(RotationStyle style, std::int64_t width, std::int64_t pairs, std::int64_t pair) {
  if (style == RotationStyle::front_halves) return {pair, pairs + pair};
  const std::int64_t first = style == RotationStyle::front_adjacent ? 0 : width - 2 * pairs;
  return {first + 2 * pair, first + 2 * pair + 1};
}

void expect_rotation_and_its_inverse(const Kernels& kernels, RotationStyle style, std::array<std::int64_t, 3> shape,
                                     std::int64_t pairs) {
  Random random;
  SCOPED_TRACE(random.trace());
  const std::vector<float> table = cos_sin_table(random, shape[0], pairs);
  std::vector<bf16> values = random.bf16s(shape[0] * shape[1] * shape[2]), after = values;
  const View<bf16, 3> before(values.data(), shape);
  Rotation rotation{View<bf16, 3>(after.data(), shape), View<const float, 3>(table.data(), {shape[0], pairs, 2}), false,
                    style};
  Context context(2);
  kernels.rotate(context, rotation);
  std::vector<double> want, allowed(values.size(), 0.0);
  for (const bf16 value : values) want.push_back(to_float(value));
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    for (std::int64_t i = 0; i < shape[1] * pairs; ++i) {
      const auto [re, im] = parts_of(style, shape[2], pairs, i % pairs);
      const double a = to_float(before(row, i / pairs, re)), b = to_float(before(row, i / pairs, im));
      const double c = rotation.cos_sin(row, i % pairs, 0), s = rotation.cos_sin(row, i % pairs, 1);
      const auto head = static_cast<std::size_t>((row * shape[1] + i / pairs) * shape[2]);
      for (const auto& [at, value] : {std::pair{re, a * c - b * s}, {im, a * s + b * c}}) {
        want[head + static_cast<std::size_t>(at)] = value;
        allowed[head + static_cast<std::size_t>(at)] =
            kBf16Epsilon * std::abs(value) + 3 * kFloatEpsilon * (std::abs(a) + std::abs(b));
      }
    }
  }
  EXPECT_TRUE(close(after.data(), want, allowed));
  // Each of the two rotations rounds both parts to bf16, and an error of one part turns into the other.
  rotation.inverse = true;
  kernels.rotate(context, rotation);
  for (std::size_t i = 0; i < values.size(); ++i) {
    want[i] = to_float(values[i]);
    if (allowed[i] > 0) allowed[i] = 3 * kBf16Epsilon * 2 * std::max(std::abs(to_float(values[i])), 6.0f);
  }
  EXPECT_TRUE(close(after.data(), want, allowed));
}

TEST_P(Rotate, FollowsFormulaAndIsUndoneByItsInverse) {
  for (const RotationStyle style : kStyles) {
    for (const auto& [rows, heads, width, pairs] :
         {std::tuple{1, 1, 2, 1}, {17, 3, 33, 5}, {3, 64, 96, 32}, {2, 5, 128, 32}}) {
      SCOPED_TRACE(testing::Message() << "style " << static_cast<int>(style) << ", width " << width);
      expect_rotation_and_its_inverse(kernels(), style, {rows, heads, width}, pairs);
    }
  }
}

TEST_P(Rotate, HasTheBitsOfTheReference) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const RotationStyle style : kStyles) {
    for (const bool inverse : {false, true}) {
      for (const std::int64_t pairs : {8, 16, 32}) {
        const std::vector<float> table = cos_sin_table(random, 3, pairs);
        std::vector<bf16> got = random.bf16s(3 * 5 * 96), want = got;
        const View<const float, 3> cos_sin(table.data(), {3, pairs, 2});
        Context context(2);
        kernels().rotate(context, {View<bf16, 3>(got.data(), {3, 5, 96}), cos_sin, inverse, style});
        reference::rotate(context, {View<bf16, 3>(want.data(), {3, 5, 96}), cos_sin, inverse, style});
        EXPECT_TRUE(same_bits(got.data(), want.data(), std::ssize(got)));
      }
    }
  }
}

class Fault19 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault19, every_set(), set_name);

TEST_P(Fault19, OnlyTheLast64ChannelsTurn) {
  std::vector<bf16> x(512, bf16{0}), y;
  x[0] = x[448] = to_bf16(1);
  y = x;
  std::vector<float> table;
  for (int pair = 0; pair < 32; ++pair) {
    const float angle = 5.0f * std::pow(1e4f, -static_cast<float>(pair) / 32);
    table.insert(table.end(), {std::cos(angle), std::sin(angle)});
  }
  Context context(1);
  kernels().rotate(context,
                   {View<bf16, 3>(y.data(), {1, 1, 512}), View<const float, 3>(table.data(), {1, 32, 2}), false});
  EXPECT_TRUE(std::equal(x.begin(), x.begin() + 448, y.begin()));
  EXPECT_EQ(y[448], to_bf16(table[0]));
  EXPECT_EQ(y[449], to_bf16(table[1]));
}

class Fault21 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault21, every_set(), set_name);

TEST_P(Fault21, PairsAreNeighboursInATailAndHalvesApartInAFront) {
  const std::vector<float> quarter_turn = {0, 1, 1, 0};
  for (const RotationStyle style : kStyles) {
    std::vector<bf16> x = {to_bf16(1), bf16{0}, bf16{0}, bf16{0}};
    Context context(1);
    kernels().rotate(context, {View<bf16, 3>(x.data(), {1, 1, 4}), View<const float, 3>(quarter_turn.data(), {1, 2, 2}),
                               false, style});
    const std::size_t partner = style == RotationStyle::front_halves ? 2 : 1;
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(to_float(x[i]), i == partner ? 1.0f : 0.0f) << i;
  }
}

TEST_P(Fault21, BehindTheFrontNothingTurns) {
  std::vector<bf16> before;
  for (int i = 0; i < 128; ++i) before.push_back(to_bf16(static_cast<float>(i + 1)));
  std::vector<bf16> x = before;
  std::vector<float> quarter_turns;
  for (int pair = 0; pair < 32; ++pair) quarter_turns.insert(quarter_turns.end(), {0, 1});
  Rotation rotation{View<bf16, 3>(x.data(), {1, 1, 128}), View<const float, 3>(quarter_turns.data(), {1, 32, 2}), false,
                    RotationStyle::front_halves};
  Context context(1);
  kernels().rotate(context, rotation);
  for (std::size_t i = 0; i < 128; ++i) {
    const auto want =
        static_cast<float>(i < 32 ? -static_cast<int>(i + 33) : static_cast<int>(i < 64 ? i - 31 : i + 1));
    EXPECT_EQ(to_float(x[i]), want) << i;
  }
  rotation.inverse = true;
  kernels().rotate(context, rotation);
  EXPECT_EQ(x, before);
}

class Fault22 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault22, every_set(), set_name);

TEST_P(Fault22, PairsAreAdjacent) {
  std::vector<bf16> x = {to_bf16(1), bf16{0}, bf16{0}, bf16{0}};
  const std::vector<float> quarter_turn = {0, 1, 1, 0};
  Context context(1);
  kernels().rotate(context,
                   {View<bf16, 3>(x.data(), {1, 1, 4}), View<const float, 3>(quarter_turn.data(), {1, 2, 2}), false});
  const float want[] = {0, 1, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(to_float(x[i]), want[i]) << i;
}

class Fault18 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault18, every_set(), set_name);

TEST_P(Fault18, RowsTurnBackTogetherAsTheyDoAlone) {
  Random random;
  SCOPED_TRACE(random.trace());
  const std::vector<float> table = cos_sin_table(random, 5, 4);
  std::vector<bf16> together = random.bf16s(5 * 2 * 16), apart = together;
  Context context(2);
  kernels().rotate(context,
                   {View<bf16, 3>(together.data(), {5, 2, 16}), View<const float, 3>(table.data(), {5, 4, 2}), true});
  for (int row = 0; row < 5; ++row) {
    kernels().rotate(context, {View<bf16, 3>(apart.data() + row * 32, {1, 2, 16}),
                               View<const float, 3>(table.data() + row * 8, {1, 4, 2}), true});
  }
  EXPECT_TRUE(same_bits(together.data(), apart.data(), 5 * 2 * 16));
}

class PoolGroups : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, PoolGroups, every_set(), set_name);

TEST_P(PoolGroups, FollowsFormula) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const auto& [groups, ratio, width] : {std::tuple{1, 1, 1}, {1, 2, 33}, {17, 2, 64}, {3, 5, 32}}) {
    // kv and score as the two halves of wider rows.
    const std::vector<float> both = random.floats(groups * ratio * 2 * width, 3);
    const std::array<std::int64_t, 3> shape = {groups, ratio, width}, strides = {ratio * 2 * width, 2 * width, 1};
    const View<const float, 3> kv(both.data(), shape, strides), score(both.data() + width, shape, strides);
    GappedMatrix<bf16> latent(groups, width, bf16{0x1234});
    Context context(2);
    kernels().pool_groups(context, kv, score, latent.view());
    for (int group = 0; group < groups; ++group) {
      std::vector<double> want, allowed;
      for (int c = 0; c < width; ++c) {
        double denominator = 0, sum = 0, size = 0, largest = score(group, 0, c);
        for (int t = 1; t < ratio; ++t) largest = std::max<double>(largest, score(group, t, c));
        for (int t = 0; t < ratio; ++t) denominator += std::exp(score(group, t, c) - largest);
        for (int t = 0; t < ratio; ++t) {
          const double term = kv(group, t, c) * std::exp(score(group, t, c) - largest) / denominator;
          sum += term;
          size += std::abs(term);
        }
        want.push_back(sum);
        // The argument of exp is off by epsilon times its size, at most 40 here, and each step adds an epsilon.
        allowed.push_back(kBf16Epsilon * std::abs(sum) + (40 + 4 * ratio + 8) * kFloatEpsilon * size);
      }
      EXPECT_TRUE(close(latent.view().row(group), want, allowed)) << "group " << group;
    }
    EXPECT_TRUE(latent.gaps_intact());
  }
}

class Fault08 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault08, every_set(), set_name);

TEST_P(Fault08, PoolingIsPerChannel) {
  const std::vector<float> kv = {1, 1, 3, 3}, score = {0, 100, 0, -100};
  std::vector<bf16> latent(2);
  Context context(1);
  kernels().pool_groups(context, View<const float, 3>(kv.data(), {1, 2, 2}),
                        View<const float, 3>(score.data(), {1, 2, 2}), View<bf16, 2>(latent.data(), {1, 2}));
  EXPECT_EQ(to_float(latent[0]), 2.0f);
  EXPECT_EQ(to_float(latent[1]), 1.0f);
}

class PackRows : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, PackRows, every_set(), set_name);

TEST_P(PackRows, CrossesPagesAndTouchesNoOtherRow) {
  Random random;
  SCOPED_TRACE(random.trace());
  constexpr std::int64_t kPages = 4, kRowsPerPage = 3, kFirst = 2, kRows = 8;
  for (const RowLayout layout :
       {RowLayout{RowFormat::fp8_e8m0, 96}, RowLayout{RowFormat::fp4_e4m3, 96}, RowLayout{RowFormat::fp4_e8m0, 96},
        RowLayout{RowFormat::fp8_f32, 173, 32}, RowLayout{RowFormat::fp8_f32, 160, 32, Fp8Scale::pow2},
        RowLayout{RowFormat::fp8_e8m0_64, 144, 16}, RowLayout{RowFormat::fp8_f32, 45, 45}}) {
    const auto bytes = static_cast<std::size_t>(layout.bytes());
    std::vector<std::vector<std::byte>> pages(kPages, std::vector<std::byte>(kRowsPerPage * bytes, std::byte{0xA5}));
    std::vector<std::byte*> pointers;
    for (auto& page : pages) pointers.push_back(page.data());
    GappedMatrix<bf16> x(kRows, layout.width, bf16{0x7FC0});
    for (std::int64_t i = 0; i < kRows; ++i) {
      const std::vector<bf16> row = random.bf16s(layout.width);
      std::copy(row.begin(), row.end(), x.view().row(i));
    }
    Context context(2);
    const PagedRows<std::byte> rows{pointers.data(), kRowsPerPage, layout.bytes()};
    kernels().pack_rows(context, layout, x.view(), rows, kFirst);
    for (std::int64_t i = 0; i < kPages * kRowsPerPage; ++i) {
      std::vector<std::byte> want(bytes, std::byte{0xA5});
      if (i >= kFirst && i < kFirst + kRows) pack_row(layout, x.view().row(i - kFirst), want.data());
      EXPECT_TRUE(std::equal(want.begin(), want.end(), rows.row(i))) << "row " << i;
    }
  }
}

TEST_P(PackRows, EveryBitPatternPacksAsTheFormatSays) {
  // Rows of neighbours: groups of NaN, of infinities, of subnormals, of both zeros; then the same in an order that
  // mixes all sizes within a group.
  constexpr std::int64_t kWidth = 128, kRows = 65'536 / kWidth;
  for (const std::uint32_t step : {1u, 40'503u}) {
    std::vector<bf16> values;
    for (std::uint32_t i = 0; i < 65'536; ++i) values.push_back({static_cast<std::uint16_t>(i * step)});
    for (const RowLayout layout :
         {RowLayout{RowFormat::fp8_e8m0, kWidth}, RowLayout{RowFormat::fp4_e4m3, kWidth},
          RowLayout{RowFormat::fp4_e8m0, kWidth}, RowLayout{RowFormat::fp8_f32, kWidth},
          RowLayout{RowFormat::fp8_f32, kWidth, 0, Fp8Scale::pow2}, RowLayout{RowFormat::fp8_e8m0_64, kWidth}}) {
      const auto bytes = static_cast<std::size_t>(layout.bytes());
      std::vector<std::byte> got(kRows * bytes), want(kRows * bytes);
      std::byte* page = got.data();
      Context context(1);
      kernels().pack_rows(context, layout, View<const bf16, 2>(values.data(), {kRows, kWidth}),
                          {&page, kRows, layout.bytes()}, 0);
      for (std::size_t i = 0; i < kRows; ++i) pack_row(layout, values.data() + i * kWidth, want.data() + i * bytes);
      EXPECT_EQ(got, want) << "format " << static_cast<int>(layout.format) << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace skim::test

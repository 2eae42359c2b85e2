// Claims: norm, rotation, pooling and packing of every kernel set follow their formulas, on strided views too; rotation
// touches the last pairs alone and is undone by its inverse; packing crosses page boundaries and touches no other row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "every_set.hpp"
#include "random_tensors.hpp"

namespace skim::test {
namespace {

class RmsNorm : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, RmsNorm, every_set(), set_name);

TEST_P(RmsNorm, FollowsFormula) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const auto& [rows, width, eps] :
       {std::tuple{1, 1, 1e-6f}, {1, 33, 1e-20f}, {17, 128, 1e-6f}, {5, 1280, 1e-20f}}) {
    GappedMatrix<bf16> x(rows, width, bf16{0x7FC0}), y(rows, width, bf16{0x1234});
    const std::vector<float> weight = random.floats(width);
    for (int i = 0; i < rows; ++i) {
      const std::vector<bf16> row = random.bf16s(width, std::exp2(static_cast<float>(4 * (i % 5) - 8)));
      std::copy(row.begin(), row.end(), x.view().row(i));
    }
    Context context(2);
    kernels().rms_norm(context, x.view(), weight.data(), eps, y.view());
    for (int i = 0; i < rows; ++i) {
      double sum = 0;
      for (int c = 0; c < width; ++c) sum += std::pow(to_float(x.view()(i, c)), 2.0);
      std::vector<double> want, allowed;
      for (int c = 0; c < width; ++c) {
        want.push_back(weight[static_cast<std::size_t>(c)] * to_float(x.view()(i, c)) / std::sqrt(sum / width + eps));
        allowed.push_back((kBf16Epsilon + (width + 6) * kFloatEpsilon) * std::abs(want.back()));
      }
      EXPECT_TRUE(close(y.view().row(i), want, allowed)) << "row " << i << " of width " << width;
    }
    EXPECT_TRUE(y.gaps_intact());
  }
}

TEST_P(RmsNorm, ZerosStayZeros) {
  const std::vector<bf16> x(64, bf16{0});
  const std::vector<float> weight(64, 1.0f);
  std::vector<bf16> y(64, bf16{0x1234});
  Context context(1);
  kernels().rms_norm(context, View<const bf16, 2>(x.data(), {1, 64}), weight.data(), 1e-20f,
                     View<bf16, 2>(y.data(), {1, 64}));
  EXPECT_EQ(y, x);
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

TEST_P(Rotate, FollowsFormulaAndIsUndoneByItsInverse) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const auto& [rows, heads, width, pairs] : {std::tuple{1, 1, 2, 1}, {17, 3, 33, 5}, {3, 64, 96, 32}}) {
    const std::vector<float> table = cos_sin_table(random, rows, pairs);
    const std::vector<bf16> before = random.bf16s(rows * heads * width);
    std::vector<bf16> after = before;
    Rotation rotation{View<bf16, 3>(after.data(), {rows, heads, width}),
                      View<const float, 3>(table.data(), {rows, pairs, 2}), false};
    Context context(2);
    kernels().rotate(context, rotation);
    const int first = width - 2 * pairs;
    std::vector<double> want, allowed;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const int column = static_cast<int>(i % static_cast<std::size_t>(width));
      want.push_back(to_float(before[i]));
      allowed.push_back(0);
      if (column < first) continue;
      const std::size_t row = i / static_cast<std::size_t>(heads * width);
      const std::size_t pair = static_cast<std::size_t>((column - first) / 2);
      const double c = table[(row * static_cast<std::size_t>(pairs) + pair) * 2];
      const double s = table[(row * static_cast<std::size_t>(pairs) + pair) * 2 + 1];
      const bool real = (column - first) % 2 == 0;
      const double a = to_float(before[real ? i : i - 1]), b = to_float(before[real ? i + 1 : i]);
      want.back() = real ? a * c - b * s : a * s + b * c;
      allowed.back() = kBf16Epsilon * std::abs(want.back()) + 3 * kFloatEpsilon * (std::abs(a) + std::abs(b));
    }
    EXPECT_TRUE(close(after.data(), want, allowed));
    // Each of the two rotations rounds both parts to bf16, and an error of one part turns into the other.
    rotation.inverse = true;
    kernels().rotate(context, rotation);
    for (std::size_t i = 0; i < before.size(); ++i) {
      want[i] = to_float(before[i]);
      if (allowed[i] > 0) allowed[i] = 3 * kBf16Epsilon * 2 * std::max(std::abs(to_float(before[i])), 6.0f);
    }
    EXPECT_TRUE(close(after.data(), want, allowed));
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
  for (const RowFormat format : {RowFormat::fp8_e8m0, RowFormat::fp4_e4m3, RowFormat::fp4_e8m0}) {
    const RowLayout layout{format, 96};
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

}  // namespace
}  // namespace skim::test

// Claims: both norms of every kernel set follow their formulas, on strided views too, and see one row at a time.
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

class LayerNorm : public EverySet {
 protected:
  std::vector<bf16> normalize(const std::vector<bf16>& x, float weight, const std::vector<float>& bias,
                              float eps) const {
    const auto width = static_cast<std::int64_t>(x.size());
    const std::vector<float> weights(x.size(), weight);
    std::vector<bf16> y(x.size());
    Context context(1);
    kernels().layer_norm(context, View<const bf16, 2>(x.data(), {1, width}), weights.data(), bias.data(), eps,
                         View<bf16, 2>(y.data(), {1, width}));
    return y;
  }
};
INSTANTIATE_TEST_SUITE_P(, LayerNorm, every_set(), set_name);

TEST_P(LayerNorm, FollowsFormulaWhateverTheRowsAround) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const auto& [rows, width, eps] :
       {std::tuple{1, 2, 1e-6f}, {1, 33, 1e-20f}, {17, 128, 1e-6f}, {5, 1281, 1e-2f}}) {
    GappedMatrix<bf16> x(rows, width, bf16{0x7FC0}), y(rows, width, bf16{0x1234});
    const std::vector<float> weight = random.floats(width), bias = random.floats(width);
    for (int i = 0; i < rows; ++i) {
      const float size = std::exp2(static_cast<float>(4 * (i % 5) - 8)), offset = 3 * size * random.normal();
      for (int c = 0; c < width; ++c) x.view()(i, c) = to_bf16(offset + size * random.normal());
    }
    Context context(2);
    kernels().layer_norm(context, x.view(), weight.data(), bias.data(), eps, y.view());
    for (int i = 0; i < rows; ++i) {
      double sum = 0, size = 0, squares = 0;
      for (int c = 0; c < width; ++c) sum += to_float(x.view()(i, c)), size += std::abs(to_float(x.view()(i, c)));
      for (int c = 0; c < width; ++c) squares += std::pow(to_float(x.view()(i, c)) - sum / width, 2.0);
      const double inverse = 1 / std::sqrt(squares / width + eps);
      std::vector<double> want, allowed;
      for (int c = 0; c < width; ++c) {
        const double w = weight[static_cast<std::size_t>(c)], b = bias[static_cast<std::size_t>(c)];
        want.push_back((to_float(x.view()(i, c)) - sum / width) * inverse * w + b);
        // The mean is off by epsilon times the sum of magnitudes, the variance by that much of itself and more.
        allowed.push_back(kBf16Epsilon * std::abs(want.back()) +
                          (width + 8) * kFloatEpsilon * (std::abs(w) * (2 * size / width * inverse + 4) + std::abs(b)));
      }
      EXPECT_TRUE(close(y.view().row(i), want, allowed)) << "row " << i << " of width " << width;
      std::vector<bf16> alone(static_cast<std::size_t>(width));
      kernels().layer_norm(context, x.view().rows(i, 1), weight.data(), bias.data(), eps,
                           View<bf16, 2>(alone.data(), {1, width}));
      EXPECT_TRUE(same_bits(alone.data(), y.view().row(i), width));
    }
    EXPECT_TRUE(y.gaps_intact());
  }
}

TEST_P(LayerNorm, ConstantRowsGiveTheBias) {
  Random random;
  for (const float value : {0.0f, 1.0f, -3.140625f, 1e20f}) {
    const std::vector<float> bias = random.floats(64);
    std::vector<bf16> want;
    for (const float b : bias) want.push_back(to_bf16(b));
    EXPECT_EQ(normalize(std::vector<bf16>(64, to_bf16(value)), 7, bias, 1e-6f), want) << value;
  }
}

TEST_P(LayerNorm, EpsilonJoinsTheVarianceWhichDividesByTheWidth) {
  const std::vector<bf16> got = normalize({to_bf16(4), to_bf16(2)}, 6, {0.5f, 0.5f}, 3);  // +-1 / sqrt(1 + 3)
  EXPECT_EQ(to_float(got[0]), 3.5f);
  EXPECT_EQ(to_float(got[1]), -2.5f);
}

class NormHeads : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, NormHeads, every_set(), set_name);

TEST_P(NormHeads, RoundsEachStepToBf16) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t width : {3, 32, 128, 512}) {
    constexpr std::int64_t kRows = 5, kHeads = 7;
    std::vector<bf16> x = random.bf16s(kRows * kHeads * width), before = x;
    Context context(2);
    kernels().norm_heads(context, View<bf16, 3>(x.data(), {kRows, kHeads, width}), 1e-6f);
    for (std::int64_t head = 0; head < kRows * kHeads; ++head) {
      const bf16* from = before.data() + head * width;
      double sum = 0;
      for (std::int64_t i = 0; i < width; ++i) sum += round_bf16(to_float(from[i]) * to_float(from[i]));
      // Another order of the sum may move the mean to a neighbour of its rounding.
      bool found = false;
      for (const double nudge : {0.0, -1e-6, 1e-6}) {
        const float mean = round_bf16(static_cast<float>(sum / static_cast<double>(width) * (1 + nudge)));
        const float inverse = round_bf16(1 / std::sqrt(round_bf16(mean + 1e-6f)));
        bool same = true;
        for (std::int64_t i = 0; i < width; ++i) {
          same = same && x[static_cast<std::size_t>(head * width + i)] == to_bf16(to_float(from[i]) * inverse);
        }
        found = found || same;
      }
      EXPECT_TRUE(found) << "head " << head << " of width " << width;
    }
  }
}

}  // namespace
}  // namespace skim::test

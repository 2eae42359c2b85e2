// The three group quantizers against a naive version: the float32 steps docs/v41.md fixes, everything else in
// double.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "formats/naive.hpp"
#include "formats/quantize.hpp"

namespace skim {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Group = std::vector<bf16>;

Group group_of(const std::vector<float>& values, std::size_t size) {
  Group group(size, to_bf16(0.0f));
  for (std::size_t i = 0; i < values.size(); ++i) group[i] = to_bf16(values[i]);
  return group;
}

Group group_of(const std::vector<float>& values) { return group_of(values, values.size()); }

/// bf16 neighbour of a positive value, one ulp away from (+1) or towards (-1) zero.
float bf16_step(float value, int ulps) {
  return to_float({static_cast<std::uint16_t>(to_bf16(value).bits + static_cast<unsigned>(ulps))});
}

// ---- naive version ----

double naive_e2m1(double x) { return naive_round(x, 1, 0.5, 6.0); }

double naive_fp4_e8m0_scale(const Group& x) {
  return naive_pow2ceil(naive_amax(x, 6 * 0x1p-126f) * static_cast<float>(1.0 / 6.0));
}

double naive_fp4_e4m3_scale(const Group& x) { return naive_e4m3(naive_amax(x, 6 * 0x1p-9f) / 6.0f); }

// ---- what the library makes of a group ----

struct Quantized {
  float scale = 0.0f;
  std::vector<float> codes;  ///< Values of the codes.

  float decoded(std::size_t i) const { return codes[i] * scale; }
};

Quantized fp8(const Group& x, Fp8Scale kind = Fp8Scale::pow2) {
  std::vector<std::uint8_t> bytes(x.size());
  Quantized result{.scale = fp8_group_scale(x, kind), .codes = {}};
  fp8_group_codes(x, result.scale, bytes.data());
  for (const std::uint8_t byte : bytes) result.codes.push_back(e4m3_to_float(byte));
  return result;
}

Quantized fp4(const Group& x, float scale) {
  std::vector<std::uint8_t> bytes(x.size() / 2);
  fp4_group_codes(x, scale, bytes.data());
  Quantized result{.scale = scale, .codes = {}};
  for (std::size_t i = 0; i < x.size(); ++i) {
    result.codes.push_back(
        e2m1_to_float(static_cast<std::uint8_t>(i % 2 == 0 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4)));
  }
  return result;
}

Quantized fp4_e8m0(const Group& x) { return fp4(x, e8m0_to_float(fp4_group_scale_e8m0(x))); }
Quantized fp4_e4m3(const Group& x) { return fp4(x, e4m3_to_float(fp4_group_scale_e4m3(x))); }

void expect_all_nan(const Quantized& quantized) {
  for (std::size_t i = 0; i < quantized.codes.size(); ++i) EXPECT_TRUE(std::isnan(quantized.decoded(i))) << i;
}

/// Random groups of every even size up to 32 and of 128 elements, magnitudes from far below to far above every floor.
template <class Check>
void for_random_groups(Check check) {
  std::mt19937 random(20260101);
  std::normal_distribution<float> normal;
  for (const std::size_t size : {2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 128}) {
    for (int exponent = -132; exponent <= 120; exponent += exponent < -30 || exponent > 20 ? 6 : 1) {
      Group x(size);
      for (bf16& value : x) {
        value = to_bf16(std::ldexp(normal(random), exponent));
        if (random() % 8 == 0) value = to_bf16(random() % 2 == 0 ? 0.0f : -0.0f);
      }
      SCOPED_TRACE("size " + std::to_string(size) + ", exponent " + std::to_string(exponent));
      check(x);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

void expect_codes(const Group& x, const Quantized& quantized, double (*round)(double)) {
  ASSERT_EQ(quantized.codes.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float quotient = to_float(x[i]) / quantized.scale;  // a float32 step, exact when the scale is a power of two
    EXPECT_EQ(static_cast<double>(quantized.codes[i]), round(quotient)) << i;
    EXPECT_EQ(std::signbit(quantized.codes[i]), std::signbit(to_float(x[i]))) << i;
  }
}

TEST(Fp8Quant, RandomGroupsMatchTheNaiveVersion) {
  for (const Fp8Scale kind : {Fp8Scale::float32, Fp8Scale::pow2}) {
    for_random_groups([kind](const Group& x) {
      const Quantized quantized = fp8(x, kind);
      EXPECT_EQ(quantized.scale, naive_fp8_scale(x, kind));
      expect_codes(x, quantized, naive_e4m3);
    });
  }
}

TEST(Fp4QuantE8m0, RandomGroupsMatchTheNaiveVersion) {
  for_random_groups([](const Group& x) {
    const Quantized quantized = fp4_e8m0(x);
    EXPECT_EQ(static_cast<double>(quantized.scale), naive_fp4_e8m0_scale(x));
    expect_codes(x, quantized, naive_e2m1);
  });
}

TEST(Fp4QuantE4m3, RandomGroupsMatchTheNaiveVersion) {
  for_random_groups([](const Group& x) {
    const Quantized quantized = fp4_e4m3(x);
    EXPECT_EQ(static_cast<double>(quantized.scale), naive_fp4_e4m3_scale(x));
    expect_codes(x, quantized, naive_e2m1);
  });
}

TEST(Fp8Quant, ScaleStepsUpJustAbove448TimesAPowerOfTwo) {
  for (int k = -21; k <= 119; ++k) {
    const float power = std::ldexp(1.0f, k), amax = 448 * power;
    EXPECT_EQ(fp8(group_of({-amax}, 32)).scale, power) << k;
    EXPECT_EQ(fp8(group_of({bf16_step(amax, -1)}, 32)).scale, power) << k;
    EXPECT_EQ(fp8(group_of({bf16_step(amax, +1)}, 32)).scale, 2 * power) << k;
    EXPECT_EQ(fp8(group_of({-amax}, 32)).decoded(0), -amax) << k;
  }
}

TEST(Fp4QuantE8m0, ScaleStepsUpJustAboveSixTimesAPowerOfTwo) {
  for (int k = -126; k <= 125; ++k) {
    const float power = std::ldexp(1.0f, k), amax = 6 * power;
    EXPECT_EQ(fp4_e8m0(group_of({amax}, 32)).scale, power) << k;
    EXPECT_EQ(fp4_e8m0(group_of({bf16_step(amax, -1)}, 32)).scale, power) << k;
    EXPECT_EQ(fp4_e8m0(group_of({bf16_step(amax, +1)}, 32)).scale, 2 * power) << k;
    EXPECT_EQ(fp4_e8m0(group_of({-amax}, 32)).decoded(0), -amax) << k;
  }
}

TEST(Fp4QuantE4m3, ScaleRoundsToTheNearestE4m3) {
  EXPECT_EQ(fp4_group_scale_e4m3(group_of({6.0f}, 16)), 0x38);
  EXPECT_EQ(fp4_group_scale_e4m3(group_of({6 * 1.0625f}, 16)), 0x38);  // tie between 1 and 1.125: even code
  EXPECT_EQ(fp4_group_scale_e4m3(group_of({bf16_step(6 * 1.0625f, 1)}, 16)), 0x39);
  EXPECT_EQ(fp4_group_scale_e4m3(group_of({-6 * 1.125f}, 16)), 0x39);
}

TEST(Fp4QuantE4m3, ElementsAboveSixScalesClamp) {
  const Quantized quantized = fp4_e4m3(group_of({6 * 1.0625f, -6 * 1.0625f}, 16));  // scale 1, so |x| / scale = 6.375
  EXPECT_EQ(quantized.decoded(0), 6.0f);
  EXPECT_EQ(quantized.decoded(1), -6.0f);
}

TEST(Fp8Quant, AmaxIsAtLeastOneTenThousandth) {
  for (const float tiny : {0.0f, -0.0f, 0x1p-133f, 5e-5f, -9.9e-5f}) {
    const Group x = group_of({tiny}, 32);
    EXPECT_EQ(fp8_group_scale(x, Fp8Scale::float32), 1e-4f * (1.0f / 448.0f));
    EXPECT_EQ(fp8_group_scale(x, Fp8Scale::pow2), 0x1p-22f);
    EXPECT_EQ(std::signbit(fp8(x).decoded(0)), std::signbit(tiny));
  }
}

TEST(Fp8Quant, ShortGroupsScaleByTheirOwnElementsOnly) {
  for (std::size_t size = 1; size < 32; ++size) {
    Group x(33, to_bf16(1e6f));  // what lies behind the group must not matter
    std::fill_n(x.begin(), size, to_bf16(448.0f));
    std::vector<std::uint8_t> codes(33, 0xA5);
    const std::span<const bf16> group(x.data(), size);
    const float scale = fp8_group_scale(group, Fp8Scale::pow2);
    fp8_group_codes(group, scale, codes.data());
    EXPECT_EQ(scale, 1.0f);
    for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], i < size ? 0x7E : 0xA5) << size << " " << i;
  }
}

TEST(Fp4Quant, ShortGroupsScaleByTheirOwnElementsOnly) {
  for (std::size_t size = 2; size < 32; size += 2) {
    Group x(34, to_bf16(1e6f));
    std::fill_n(x.begin(), size, to_bf16(-6.0f));
    std::vector<std::uint8_t> codes(17, 0xA5);
    const std::span<const bf16> group(x.data(), size);
    EXPECT_EQ(fp4_group_scale_e8m0(group), 127);
    EXPECT_EQ(fp4_group_scale_e4m3(group), 0x38);
    fp4_group_codes(group, 1.0f, codes.data());
    for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], i < size / 2 ? 0xFF : 0xA5) << size << " " << i;
  }
}

TEST(NotFinite, NanMakesTheWholeGroupNan) {
  for (const std::size_t place : {0u, 7u, 15u}) {
    for (const float nan : {kNan, -kNan}) {
      Group x = group_of({kInf, -1.0f, 0.0f, 3.0f}, 16);
      x[place] = to_bf16(nan);
      expect_all_nan(fp8(x, Fp8Scale::pow2));
      expect_all_nan(fp8(x, Fp8Scale::float32));
      expect_all_nan(fp4_e8m0(x));
      expect_all_nan(fp4_e4m3(x));
      EXPECT_EQ(fp4_group_scale_e8m0(x), 255);
      EXPECT_EQ(fp4_group_scale_e4m3(x), 0x7F);
    }
  }
}

TEST(NotFinite, InfinityHasNoPowerOfTwoScaleSoTheGroupIsNan) {
  for (const float infinity : {kInf, -kInf}) {
    const Group x = group_of({1.0f, infinity, 0.0f}, 16);
    EXPECT_TRUE(std::isnan(fp8_group_scale(x, Fp8Scale::pow2)));
    EXPECT_EQ(fp4_group_scale_e8m0(x), 255);
    expect_all_nan(fp8(x, Fp8Scale::pow2));
    expect_all_nan(fp8(x, Fp8Scale::float32));  // scale inf: inf / inf and 0 * inf
    expect_all_nan(fp4_e8m0(x));
  }
}

TEST(NotFinite, InfinitySaturatesUnderAnE4m3Scale) {
  const Quantized quantized = fp4_e4m3(group_of({kInf, -kInf, 448.0f, 0.0f}, 16));
  EXPECT_EQ(quantized.scale, 448.0f);
  EXPECT_EQ(quantized.decoded(0), 2688.0f);
  EXPECT_EQ(quantized.decoded(1), -2688.0f);
  EXPECT_EQ(quantized.decoded(2), 448.0f);
  EXPECT_EQ(quantized.decoded(3), 0.0f);
}

TEST(NotFinite, TheLargestBf16RoundsUpToInfinity) {
  const float largest = to_float({0x7F7F});  // rounds to 2^128: 256 * 2^120 in fp8, 4 * 2^126 in fp4
  EXPECT_EQ(fp8(group_of({largest}, 32)).decoded(0), kInf);
  EXPECT_EQ(fp4_e8m0(group_of({-largest}, 32)).decoded(0), -kInf);
}

TEST(Fault61, ScaleIsRoundedBeforeCodes) {
  const Quantized quantized = fp8(group_of({300.0f}, 32), Fp8Scale::pow2);
  EXPECT_EQ(quantized.scale, 1.0f);
  EXPECT_EQ(quantized.decoded(0), 288.0f);
}

TEST(Fault63, TiesGoToTheEvenCode) {
  const Group x = group_of({0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 6.0f});
  const std::vector<float> expected = {0, 1, 1, 2, 2, 4, 4, 6};
  EXPECT_EQ(fp4_group_scale_e8m0(x), 127);
  EXPECT_EQ(fp4_e8m0(x).codes, expected);
  EXPECT_EQ(fp4_e4m3(x).codes, expected);
  Group negative = x;
  for (bf16& value : negative) value.bits |= 0x8000;
  const Quantized quantized = fp4_e8m0(negative);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(quantized.codes[i], -expected[i]);
    EXPECT_TRUE(std::signbit(quantized.codes[i])) << i;  // -0.25 gives -0
  }
}

TEST(Fault63, Ue8m0ScaleIsTheLeastPowerOfTwoThatFitsEveryAmax) {
  const std::uint16_t least = to_bf16(6 * 0x1p-126f).bits;
  for (std::uint16_t bits = least; bits < 0x7F80; ++bits) {
    const double amax = to_float({bits}), scale = e8m0_to_float(fp4_group_scale_e8m0(Group(32, {bits})));
    ASSERT_LE(amax / scale, 6.0) << bits;
    ASSERT_GT(amax / scale, 3.0) << bits;
  }
}

TEST(Fault63, SignOfZeroIsKept) {
  for (const Group& x : {group_of({0.0f, -0.0f}, 16), group_of({0.0f, -0.0f, 100.0f}, 16)}) {
    for (const Quantized& quantized : {fp8(x), fp4_e8m0(x), fp4_e4m3(x)}) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(quantized.decoded(0)), 0u);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(quantized.decoded(1)), 0x80000000u);
    }
  }
}

TEST(Fault64, ScaleSaturatesAt448) {
  for (const float amax : {6.0f * 448, 6.0f * 449, bf16_step(6.0f * 448, 1), 6e6f, to_float({0x7F7F})}) {
    const Quantized quantized = fp4_e4m3(group_of({amax, -amax, 448.0f}, 16));
    EXPECT_EQ(quantized.scale, 448.0f) << amax;
    EXPECT_EQ(quantized.decoded(0), 2688.0f) << amax;
    EXPECT_EQ(quantized.decoded(1), -2688.0f) << amax;
    EXPECT_EQ(quantized.decoded(2), 448.0f) << amax;
  }
}

TEST(Fault64, ZeroGroupDecodesToZeros) {
  const Quantized quantized = fp4_e4m3(group_of({0.0f, -0.0f}, 16));
  EXPECT_EQ(quantized.scale, 0x1p-9f);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(quantized.decoded(i), 0.0f) << i;
}

TEST(Fault64, SubnormalScaleIsExactAndNeverZero) {
  for (const float amax : {6 * 0x1p-9f, 6 * 0x1p-10f, 6 * 0x1p-11f}) {  // the last two lie below the floor of the scale
    const Group x = group_of({amax, -amax, 0.0f}, 16);
    const Quantized quantized = fp4_e4m3(x);
    EXPECT_EQ(fp4_group_scale_e4m3(x), 1) << amax;
    EXPECT_EQ(quantized.decoded(0), amax);
    EXPECT_EQ(quantized.decoded(1), -amax);
    EXPECT_EQ(quantized.decoded(2), 0.0f);
  }
  EXPECT_EQ(fp4_e4m3(group_of({6 * 7 * 0x1p-9f}, 16)).scale, 7 * 0x1p-9f);
}

TEST(Fault65, BytesAreOcpE4m3) {
  EXPECT_EQ(e4m3_to_float(0x7E), 448.0f);
  EXPECT_TRUE(std::isnan(e4m3_to_float(0x7F)));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(e4m3_to_float(0x80)), 0x80000000u);
  const Group x = group_of({448.0f, -448.0f, 0.0f, -0.0f, 1.0f});
  std::vector<std::uint8_t> codes(x.size());
  fp8_group_codes(x, fp8_group_scale(x, Fp8Scale::pow2), codes.data());
  EXPECT_EQ(codes, (std::vector<std::uint8_t>{0x7E, 0xFE, 0x00, 0x80, 0x38}));
  fp8_group_codes(x, kNan, codes.data());
  for (const std::uint8_t code : codes) EXPECT_EQ(code & 0x7F, 0x7F);
}

TEST(Fault65, E8m0IsAnExponentNotANumber) {
  EXPECT_EQ(fp4_group_scale_e8m0(group_of({6.0f}, 32)), 127);   // 1.0
  EXPECT_EQ(fp4_group_scale_e8m0(group_of({12.0f}, 32)), 128);  // 2.0
  EXPECT_EQ(e8m0_to_float(130), 8.0f);
}

}  // namespace
}  // namespace skim

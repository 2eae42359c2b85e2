// The conversions of src/formats, over every code and every bf16 value, against formulas in double that share no code
// with the library.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"

namespace skim {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

/// Value of an e4m3 code other than NaN, from the definition of the format.
double e4m3_value(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1.0 + mantissa / 8.0, exponent - 7);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

/// Value of an e2m1 code, from the definition of the format.
double e2m1_value(int code) {
  const int exponent = (code >> 1) & 3, mantissa = code & 1;
  const double magnitude = exponent == 0 ? mantissa * 0.5 : std::ldexp(1.0 + mantissa / 2.0, exponent - 1);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

/// The code in [0, largest] nearest to `magnitude`, found by trying all; the even one of two that are equally near.
template <class Value>
int nearest_code(double magnitude, int largest, Value value) {
  if (magnitude >= value(largest)) return largest;  // huge magnitudes absorb the values in double
  int best = 0;
  for (int code = 1; code <= largest; ++code) {
    const double distance = std::abs(value(code) - magnitude), best_distance = std::abs(value(best) - magnitude);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) best = code;
  }
  return best;
}

int expected_e4m3(float x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  return sign | (std::isnan(x) ? 0x7F : nearest_code(std::abs(static_cast<double>(x)), 0x7E, e4m3_value));
}

int expected_e2m1(float x) {
  const int sign = std::signbit(x) ? 8 : 0;
  return sign | (std::isnan(x) ? 7 : nearest_code(std::abs(static_cast<double>(x)), 7, e2m1_value));
}

bf16 bf16_of(std::uint32_t bits) { return {static_cast<std::uint16_t>(bits)}; }

TEST(E4m3, EveryCodeHasTheValueOfItsFormula) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<std::uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(static_cast<double>(value), e4m3_value(code)) << code;
    }
    EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
  }
}

TEST(E4m3, EveryCodeSurvivesTheTripThroughFloat) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(e4m3_from_float(e4m3_to_float(static_cast<std::uint8_t>(code))), code);
  }
}

TEST(E4m3, LandmarkCodes) {
  EXPECT_EQ(e4m3_to_float(0x7E), 448.0f);
  EXPECT_TRUE(std::isnan(e4m3_to_float(0x7F)));
  EXPECT_EQ(bits_of(e4m3_to_float(0x80)), 0x80000000u);
  EXPECT_EQ(e4m3_to_float(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3_to_float(0x08), 0x1p-6f);
  EXPECT_EQ(e4m3_to_float(0x38), 1.0f);
}

TEST(E4m3, EveryBf16BecomesANearestCode) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = to_float(bf16_of(bits));
    ASSERT_EQ(e4m3_from_float(x), expected_e4m3(x)) << std::hex << "bf16 bits " << bits;
  }
}

TEST(E4m3, FloatsAroundEveryMidpointBecomeTheNearestCode) {
  for (int code = 0; code < 0x7E; ++code) {
    const auto midpoint = static_cast<float>((e4m3_value(code) + e4m3_value(code + 1)) / 2);
    const int even = code + (code & 1);
    EXPECT_EQ(e4m3_from_float(std::nextafter(midpoint, 0.0f)), code);
    EXPECT_EQ(e4m3_from_float(midpoint), even) << code;
    EXPECT_EQ(e4m3_from_float(std::nextafter(midpoint, kInf)), code + 1);
    EXPECT_EQ(e4m3_from_float(-std::nextafter(midpoint, 0.0f)), 0x80 | code);
    EXPECT_EQ(e4m3_from_float(-midpoint), 0x80 | even) << code;
    EXPECT_EQ(e4m3_from_float(-std::nextafter(midpoint, kInf)), 0x80 | (code + 1));
  }
}

TEST(E4m3, LargeValuesSaturateAndNanStaysNan) {
  for (const float x : {448.0f, 449.0f, 464.0f, 480.0f, 1e30f, std::numeric_limits<float>::max(), kInf}) {
    EXPECT_EQ(e4m3_from_float(x), 0x7E) << x;
    EXPECT_EQ(e4m3_from_float(-x), 0xFE) << x;
  }
  EXPECT_EQ(e4m3_from_float(float_of(0x7F800001u)), 0x7F);
  EXPECT_EQ(e4m3_from_float(float_of(0xFFFFFFFFu)), 0xFF);
}

TEST(E2m1, EveryCodeHasTheValueOfItsFormula) {
  for (int code = 0; code < 16; ++code) {
    const float value = e2m1_to_float(static_cast<std::uint8_t>(code));
    EXPECT_EQ(static_cast<double>(value), e2m1_value(code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 8) << code;
    EXPECT_EQ(e2m1_from_float(value), code);
  }
}

TEST(E2m1, HighNibbleDoesNotMatterWhenDecoding) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(bits_of(e2m1_to_float(static_cast<std::uint8_t>(byte))),
              bits_of(e2m1_to_float(static_cast<std::uint8_t>(byte & 15))));
  }
}

TEST(E2m1, EveryBf16BecomesANearestCode) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = to_float(bf16_of(bits));
    ASSERT_EQ(e2m1_from_float(x), expected_e2m1(x)) << std::hex << "bf16 bits " << bits;
  }
}

TEST(E2m1, FloatsAroundEveryMidpointBecomeTheNearestCode) {
  for (int code = 0; code < 7; ++code) {
    const auto midpoint = static_cast<float>((e2m1_value(code) + e2m1_value(code + 1)) / 2);
    EXPECT_EQ(e2m1_from_float(std::nextafter(midpoint, 0.0f)), code);
    EXPECT_EQ(e2m1_from_float(midpoint), code + (code & 1)) << code;
    EXPECT_EQ(e2m1_from_float(std::nextafter(midpoint, kInf)), code + 1);
    EXPECT_EQ(e2m1_from_float(-midpoint), 8 | (code + (code & 1))) << code;
  }
}

TEST(E8m0, EveryByteIsAPowerOfTwoOrNan) {
  for (int byte = 0; byte < 255; ++byte) {
    const float value = e8m0_to_float(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(static_cast<double>(value), std::ldexp(1.0, byte - 127)) << byte;
    if (byte != 0) {  // 2^-127 is a float32 subnormal: pow2ceil reads its fields, so it goes up to 2^-126
      EXPECT_EQ(e8m0_pow2ceil(value), byte);
    }
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
  EXPECT_EQ(e8m0_pow2ceil(e8m0_to_float(255)), 255);
}

TEST(Pow2Ceil, NormalFloatsGoUpToTheNextPowerOfTwo) {
  for (int exponent = -126; exponent <= 126; ++exponent) {
    const float power = std::ldexp(1.0f, exponent);
    EXPECT_EQ(pow2ceil(power), power) << exponent;
    EXPECT_EQ(pow2ceil(std::nextafter(power, kInf)), 2 * power) << exponent;
    EXPECT_EQ(pow2ceil(1.5f * power), 2 * power) << exponent;
    EXPECT_EQ(pow2ceil(std::nextafter(2 * power, 0.0f)), 2 * power) << exponent;
  }
}

TEST(Pow2Ceil, EdgesFollowTheFields) {
  EXPECT_EQ(pow2ceil(0.0f), 0x1p-127f);
  EXPECT_EQ(pow2ceil(std::numeric_limits<float>::denorm_min()), 0x1p-126f);
  EXPECT_EQ(pow2ceil(0x1p-127f), 0x1p-126f);
  EXPECT_EQ(pow2ceil(std::nextafter(0x1p-126f, 0.0f)), 0x1p-126f);
  EXPECT_EQ(pow2ceil(0x1p127f), 0x1p127f);
  EXPECT_TRUE(std::isnan(pow2ceil(std::nextafter(0x1p127f, kInf))));  // 2^128 has no byte
  EXPECT_TRUE(std::isnan(pow2ceil(std::numeric_limits<float>::max())));
  EXPECT_TRUE(std::isnan(pow2ceil(kInf)));
  EXPECT_TRUE(std::isnan(pow2ceil(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Bf16, EveryValueSurvivesTheTripThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(bf16_of(bits));
    const bool nan = (bits & 0x7FFF) > 0x7F80;
    ASSERT_EQ(bits_of(value), bits << 16);
    ASSERT_EQ(std::isnan(value), nan) << bits;
    ASSERT_EQ(to_bf16(value).bits, nan ? bits | 0x40 : bits) << bits;  // a signalling NaN becomes quiet
  }
}

TEST(Bf16, EveryValueIsTheNearestOfTheFloatsAroundIt) {
  for (std::uint32_t magnitude = 0; magnitude < 0x7F80; ++magnitude) {
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const std::uint32_t below = sign | magnitude, above = below + 1, even = below + (below & 1);
      const std::uint32_t tie = (below << 16) | 0x8000u;  // halfway between `below` and the next value away from zero
      ASSERT_EQ(to_bf16(float_of((below << 16) | 1u)).bits, below) << below;
      ASSERT_EQ(to_bf16(float_of(tie - 1)).bits, below) << below;
      ASSERT_EQ(to_bf16(float_of(tie)).bits, even) << below;
      ASSERT_EQ(to_bf16(float_of(tie + 1)).bits, above) << below;
      ASSERT_EQ(to_bf16(float_of((below << 16) | 0xFFFFu)).bits, above) << below;
    }
  }
}

TEST(Bf16, TiesByValue) {
  EXPECT_EQ(round_bf16(1.0f + 0x1p-8f), 1.0f);
  EXPECT_EQ(round_bf16(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);
  EXPECT_EQ(round_bf16(257.0f), 256.0f);
  EXPECT_EQ(round_bf16(259.0f), 260.0f);
  EXPECT_EQ(round_bf16(std::nextafter(257.0f, kInf)), 258.0f);
}

TEST(Bf16, OverflowGoesToInfinity) {
  const float largest = to_float({0x7F7F}), tie = largest + 0x1p119f;
  EXPECT_EQ(round_bf16(std::nextafter(tie, 0.0f)), largest);
  EXPECT_EQ(round_bf16(tie), kInf);
  EXPECT_EQ(round_bf16(-tie), -kInf);
  EXPECT_EQ(round_bf16(std::numeric_limits<float>::max()), kInf);
  EXPECT_EQ(round_bf16(kInf), kInf);
  EXPECT_EQ(round_bf16(-kInf), -kInf);
}

TEST(Bf16, NanWithAnyPayloadStaysNanOfItsSign) {
  for (std::uint32_t payload = 1; payload < 0x800000u; payload = payload < 0x20000u ? payload + 1 : payload * 2 + 1) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {  // payloads below 0x10000 vanish when truncated
      const float rounded = round_bf16(float_of(sign | 0x7F800000u | payload));
      ASSERT_TRUE(std::isnan(rounded)) << payload;
      ASSERT_EQ(std::signbit(rounded), sign != 0) << payload;
    }
  }
}

}  // namespace
}  // namespace skim

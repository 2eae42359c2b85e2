// Claims: C converts between float32 and bf16 as C++ does, and refuses what is not two arrays.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "capi/fixture.hpp"
#include "skim/tensor.hpp"

namespace skim::test {
namespace {

/// Fault 147.
TEST(Numbers, EveryBf16ValueComesBackFromFloat32) {
  std::vector<std::uint16_t> codes(1 << 16), back(1 << 16);
  std::vector<float> values(1 << 16);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  ASSERT_EQ(skim_to_float32(codes.data(), values.data(), codes.size(), nullptr), SKIM_OK);
  ASSERT_EQ(skim_to_bf16(values.data(), back.data(), codes.size(), nullptr), SKIM_OK);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), static_cast<std::uint32_t>(i) << 16);
    if (std::isnan(values[i])) {
      EXPECT_EQ(back[i], codes[i] | 0x40);  // made quiet
    } else {
      EXPECT_EQ(back[i], codes[i]);
    }
  }
}

TEST(Numbers, Float32IsRoundedToTheNearestEvenBf16) {
  const std::array<float, 6> values = {1.00390625f,
                                       1.01171875f,
                                       -1.004f,
                                       3.4e38f,
                                       std::numeric_limits<float>::max(),
                                       std::numeric_limits<float>::denorm_min()};
  const std::array<std::uint16_t, 6> expected = {0x3F80, 0x3F82, 0xBF81, 0x7F80, 0x7F80, 0};
  std::array<std::uint16_t, 6> rounded{};
  ASSERT_EQ(skim_to_bf16(values.data(), rounded.data(), values.size(), nullptr), SKIM_OK);
  EXPECT_EQ(rounded, expected);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(to_bf16(values[i]).bits, expected[i]);
}

TEST(Numbers, WhatIsNotTwoArraysIsRefused) {
  std::array<float, 4> values{};
  std::array<std::uint16_t, 4> codes{};
  skim_error error;
  EXPECT_EQ(skim_to_bf16(nullptr, codes.data(), 1, &error), SKIM_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "values is NULL");
  EXPECT_EQ(skim_to_float32(codes.data(), nullptr, 1, &error), SKIM_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "values is NULL");
  EXPECT_EQ(skim_to_bf16(values.data(), codes.data(), SIZE_MAX, &error), SKIM_INVALID_ARGUMENT);
  auto* const inside = reinterpret_cast<std::uint16_t*>(values.data() + 3);
  EXPECT_EQ(skim_to_bf16(values.data(), inside, 4, &error), SKIM_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "values and bf16 overlap");
  EXPECT_EQ(skim_to_float32(inside, values.data(), 4, &error), SKIM_INVALID_ARGUMENT);
  EXPECT_EQ(skim_to_bf16(nullptr, nullptr, 0, &error), SKIM_OK);
}

}  // namespace
}  // namespace skim::test

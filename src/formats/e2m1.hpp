// F4 (e2m1): sign 1, exponent 2, mantissa 1: 0 .5 1 1.5 2 3 4 6. Two per byte, the even element in the low nibble.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace skim {

/// Value of each of the 16 codes.
inline constexpr std::array<float, 16> kE2m1Values = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

inline float e2m1_to_float(std::uint8_t code) { return kE2m1Values[code & 15u]; }

/// Nearest code, ties to the even code, saturating at +-6, sign of zero kept. The format has no NaN: NaN becomes 6 of
/// its sign (the quantizers carry a NaN in the scale instead).
inline std::uint8_t e2m1_from_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const float magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFu);
  std::uint32_t code = 7;
  if (magnitude <= 0.25f)
    code = 0;
  else if (magnitude < 0.75f)
    code = 1;
  else if (magnitude <= 1.25f)
    code = 2;
  else if (magnitude < 1.75f)
    code = 3;
  else if (magnitude <= 2.5f)
    code = 4;
  else if (magnitude < 3.5f)
    code = 5;
  else if (magnitude <= 5.0f)
    code = 6;
  return static_cast<std::uint8_t>(((bits >> 28) & 8u) | code);
}

}  // namespace skim

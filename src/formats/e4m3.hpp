// F8_E4M3 ("fn"): sign 1, exponent 4 (bias 7), mantissa 3; no infinity, largest 448, subnormals in steps of 2^-9.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace skim {

inline constexpr float kE4m3Max = 448.0f;

namespace detail {
constexpr float decode_e4m3(unsigned code) {
  const unsigned exponent = (code >> 3) & 15u, mantissa = code & 7u;
  const std::uint32_t sign = (code & 0x80u) << 24;
  if (exponent == 15u && mantissa == 7u) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (exponent == 0u) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}
constexpr std::array<float, 256> make_e4m3_table() {
  std::array<float, 256> table{};
  for (unsigned code = 0; code < 256; ++code) table[code] = decode_e4m3(code);
  return table;
}
}  // namespace detail

/// Value of each of the 256 codes.
inline constexpr std::array<float, 256> kE4m3Values = detail::make_e4m3_table();

inline float e4m3_to_float(std::uint8_t code) { return kE4m3Values[code]; }

/// Nearest code, ties to even, saturating at +-448; NaN becomes the NaN code of its sign.
inline std::uint8_t e4m3_from_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t code;
  if (magnitude > 0x7F800000u) {
    code = 0x7Fu;
  } else if (magnitude >= std::bit_cast<std::uint32_t>(kE4m3Max)) {
    code = 0x7Eu;
  } else if (magnitude < std::bit_cast<std::uint32_t>(0x1p-6f)) {
    code = static_cast<std::uint32_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 512.0f));
  } else {
    const std::uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
    code = (rounded >> 20) - (120u << 3);
  }
  return static_cast<std::uint8_t>(sign | code);
}

}  // namespace skim

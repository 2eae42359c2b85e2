// F8_E8M0: an exponent alone. Value 2^(byte - 127), byte 255 is NaN. Used for scales.
#pragma once

#include <bit>
#include <cstdint>

namespace skim {

inline float e8m0_to_float(std::uint8_t byte) {
  if (byte == 255) return std::bit_cast<float>(0x7FC00000u);
  if (byte == 0) return 0x1p-127f;
  return std::bit_cast<float>(static_cast<std::uint32_t>(byte) << 23);
}

/// Byte of pow2ceil(v) = 2^(exponent(v) + (mantissa(v) != 0)) for v >= 0, read from the IEEE fields of v.
/// Infinity and NaN give 255.
inline std::uint8_t e8m0_pow2ceil(float v) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(v) & 0x7FFFFFFFu;
  if (bits >= 0x7F800000u) return 255;
  return static_cast<std::uint8_t>((bits >> 23) + ((bits & 0x7FFFFFu) != 0 ? 1u : 0u));
}

/// pow2ceil(v) as a float32.
inline float pow2ceil(float v) { return e8m0_to_float(e8m0_pow2ceil(v)); }

}  // namespace skim

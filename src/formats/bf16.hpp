// bfloat16 conversions (docs/v41.md, Number formats: round to nearest even, NaN stays NaN).
#pragma once

#include <bit>
#include <cstdint>

#include "skim/tensor.hpp"

namespace skim {

inline float to_float(bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

inline bf16 to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};  // quiet, so that truncation cannot make it infinite
  }
  const std::uint32_t half_below_even = 0x7FFFu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>((bits + half_below_even) >> 16)};
}

/// The float32 nearest to `value` among bfloat16 values.
inline float round_bf16(float value) { return to_float(to_bf16(value)); }

}  // namespace skim

// The block quantizers of docs/v41.md: groups of consecutive elements share one scale. All arithmetic is float32 on
// bf16 input. A NaN in a group makes the scale NaN, and so the whole group. An infinity does the same, except that an
// e4m3 scale saturates at 448, so that +-2688 is decoded. The last group of a row may be shorter than the others.
#pragma once

#include <cstdint>
#include <span>

#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "skim/tensor.hpp"

namespace skim {

/// How an fp8 scale is derived from amax / 448: kept as float32, or rounded up to a power of two.
enum class Fp8Scale { float32, pow2 };

/// Scales of groups whose largest magnitude is `amax`; NaN if that is NaN.
inline float fp8_scale(float amax, Fp8Scale kind) {
  const float scale = (amax < 1e-4f ? 1e-4f : amax) * (1.0f / 448.0f);
  return kind == Fp8Scale::pow2 ? pow2ceil(scale) : scale;
}
inline std::uint8_t fp4_scale_e8m0(float amax) {
  constexpr float kFloor = 6.0f * 0x1p-126f;
  return e8m0_pow2ceil((amax < kFloor ? kFloor : amax) * (1.0f / 6.0f));
}
inline std::uint8_t fp4_scale_e4m3(float amax) {
  constexpr float kFloor = 6.0f * 0x1p-9f;
  return e4m3_from_float((amax < kFloor ? kFloor : amax) / 6.0f);
}

/// Scale of one group: max(|x|, 1e-4) * f32(1/448), rounded up to a power of two if asked.
float fp8_group_scale(std::span<const bf16> x, Fp8Scale kind);
/// Codes e4m3(x / scale) of one group.
void fp8_group_codes(std::span<const bf16> x, float scale, std::uint8_t* codes);

/// e8m0 byte of one fp4 group's scale: pow2ceil(max(|x|, 6 * 2^-126) * f32(1/6)).
std::uint8_t fp4_group_scale_e8m0(std::span<const bf16> x);
/// e4m3 code of one fp4 group's scale: e4m3(max(|x|, 6 * 2^-9) / 6). Saturates at 448 and is never zero.
std::uint8_t fp4_group_scale_e4m3(std::span<const bf16> x);
/// Packed codes e2m1(clamp(x / scale, +-6)) of one group, two per byte. x has an even number of elements.
void fp4_group_codes(std::span<const bf16> x, float scale, std::uint8_t* packed);

}  // namespace skim

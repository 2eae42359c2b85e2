// The fp8 quantizer and its parts, naively: the float32 steps that docs/v41.md fixes, everything else in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "formats/bf16.hpp"
#include "formats/quantize.hpp"

namespace skim {

inline float naive_amax(std::span<const bf16> x, float floor) {
  float largest = floor;
  for (const bf16 value : x) largest = std::max(largest, std::abs(to_float(value)));
  return largest;
}

inline double naive_pow2ceil(float v) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(v), &exponent);  // in [0.5, 1)
  return std::ldexp(1.0, mantissa == 0.5 ? exponent - 1 : exponent);
}

/// Rounds to the nearest number with `mantissa_bits` below the leading bit, not finer than `step`, ties to even.
inline double naive_round(double x, int mantissa_bits, double step, double largest) {
  const double magnitude = std::abs(x);
  double quantum = step;
  if (magnitude > 0) quantum = std::max(quantum, std::ldexp(1.0, std::ilogb(magnitude) - mantissa_bits));
  const double units = magnitude / quantum, whole = std::floor(units), rest = units - whole;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2.0) == 1.0);
  return std::copysign(std::min((whole + (up ? 1.0 : 0.0)) * quantum, largest), x);
}

inline double naive_e4m3(double x) { return naive_round(x, 3, 0x1p-9, 448.0); }

inline float naive_fp8_scale(std::span<const bf16> x, Fp8Scale kind) {
  const float scale = naive_amax(x, 1e-4f) * static_cast<float>(1.0 / 448.0);
  return kind == Fp8Scale::pow2 ? static_cast<float>(naive_pow2ceil(scale)) : scale;
}

}  // namespace skim

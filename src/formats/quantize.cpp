#include "formats/quantize.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"

namespace skim {
namespace {

/// Largest magnitude; NaN if any element is NaN. Magnitudes of bf16 order like their bit patterns, with every NaN above
/// infinity.
float amax(std::span<const bf16> x) {
  std::uint16_t largest = 0;
  for (const bf16 value : x) largest = std::max(largest, static_cast<std::uint16_t>(value.bits & 0x7FFFu));
  return to_float({largest});
}

}  // namespace

float fp8_group_scale(std::span<const bf16> x, Fp8Scale kind) { return fp8_scale(amax(x), kind); }

void fp8_group_codes(std::span<const bf16> x, float scale, std::uint8_t* codes) {
  for (std::size_t i = 0; i < x.size(); ++i) codes[i] = e4m3_from_float(to_float(x[i]) / scale);
}

std::uint8_t fp4_group_scale_e8m0(std::span<const bf16> x) { return fp4_scale_e8m0(amax(x)); }

std::uint8_t fp4_group_scale_e4m3(std::span<const bf16> x) { return fp4_scale_e4m3(amax(x)); }

void fp4_group_codes(std::span<const bf16> x, float scale, std::uint8_t* packed) {
  for (std::size_t i = 0; i < x.size(); i += 2) {
    const unsigned low = e2m1_from_float(to_float(x[i]) / scale);
    const unsigned high = e2m1_from_float(to_float(x[i + 1]) / scale);
    packed[i / 2] = static_cast<std::uint8_t>(low | (high << 4));
  }
}

}  // namespace skim

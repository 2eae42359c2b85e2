// Inputs of linear layers as floats, the way a layer sees them: an fp8 layer sees what its quantizer leaves.
#pragma once

#include <algorithm>
#include <span>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "kernels/kernels.hpp"
#include "kernels/simd/weights.hpp"

namespace skim::simd {

template <class V>
Ints<V> load_bf16_bits(const bf16* from) {
  Words<V> words;
  std::memcpy(&words, from, sizeof(words));
  return __builtin_convertvector(words, Ints<V>) << 16;
}

/// kLanes values, rounded.
template <class V>
void store_bf16(bf16* to, Floats<V> value) {
  const auto bits = std::bit_cast<Ints<V>>(round_bf16<V>(value)) >> 16;
  const auto words = __builtin_convertvector(bits, Words<V>);
  std::memcpy(to, &words, sizeof(words));
}

/// y[count] from sums that are aligned to the vector.
template <class V>
void store_sums(const float* sums, std::int64_t count, float* y) {
  std::copy_n(sums, count, y);
}
template <class V>
void store_sums(const float* sums, std::int64_t count, bf16* y) {
  for (std::int64_t first = 0; first < count; first += V::kLanes) {
    const auto bits = std::bit_cast<Ints<V>>(round_bf16<V>(load<V>(sums + first))) >> 16;
    const auto words = __builtin_convertvector(bits, Words<V>);
    std::memcpy(y + first, &words, static_cast<std::size_t>(2 * std::min<std::int64_t>(V::kLanes, count - first)));
  }
}

/// Nearest e4m3 value of each lane, ties to even, saturating; NaN stays NaN.
template <class V>
Floats<V> round_e4m3(Floats<V> value) {
  const auto bits = std::bit_cast<Unsigned<V>>(value);
  const Unsigned<V> magnitude = bits & 0x7FFFFFFFu;
  const auto normal = std::bit_cast<Floats<V>>((magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u)) & ~0xFFFFFu);
  const auto size = std::bit_cast<Floats<V>>(magnitude);
  const Floats<V> subnormal = (size + 0x1p14f) - 0x1p14f;  // floats near 2^14 are 2^-9 apart
  Floats<V> rounded = size < spread<V>(0x1p-6f) ? subnormal : normal;
  rounded = rounded > spread<V>(kE4m3Max) ? spread<V>(kE4m3Max) : rounded;
  const auto with_sign = std::bit_cast<Floats<V>>(std::bit_cast<Unsigned<V>>(rounded) | (bits & 0x80000000u));
  return value == value ? with_sign : value;
}

/// Largest magnitude of x[count], `count` a multiple of the lanes; NaN if any element is NaN.
template <class V>
float largest_magnitude(const bf16* x, std::int64_t count) {
  Ints<V> most{};
  for (std::int64_t i = 0; i < count; i += V::kLanes) {
    const Ints<V> magnitude = load_bf16_bits<V>(x + i) & 0x7FFFFFFF;  // ordered like the floats, NaN above infinity
    most = magnitude > most ? magnitude : most;
  }
  std::int32_t largest = 0;
  for (int lane = 0; lane < V::kLanes; ++lane) largest = std::max<std::int32_t>(largest, most[lane]);
  return std::bit_cast<float>(largest);
}

/// Values of the codes of a group of x, `count` a multiple of the lanes. Returns their scale: fp8_group_scale and
/// fp8_group_codes, several elements at once.
template <class V>
float quantize_group(const bf16* x, std::int64_t count, Fp8Scale kind, float* codes) {
  const float scale = fp8_scale(largest_magnitude<V>(x, count), kind);
  for (std::int64_t i = 0; i < count; i += V::kLanes) {
    const auto value = std::bit_cast<Floats<V>>(load_bf16_bits<V>(x + i));
    store<V>(codes + i, round_e4m3<V>(value / scale));
  }
  return scale;
}

namespace {

/// Groups of any size.
float quantize_odd_group(std::span<const bf16> x, Fp8Scale kind, float* codes) {
  const float scale = fp8_group_scale(x, kind);
  for (std::size_t i = 0; i < x.size(); ++i) codes[i] = e4m3_to_float(e4m3_from_float(to_float(x[i]) / scale));
  return scale;
}

}  // namespace

/// Activations [rows, depth] as floats, cut along `depth` into stretches: stretch s is [rows, kStretch].
struct WideInput {
  float* values;
  std::int64_t rows, depth;

  std::int64_t stretches() const { return (depth + kStretch - 1) / kStretch; }
  std::int64_t length(std::int64_t stretch) const { return std::min(kStretch, depth - stretch * kStretch); }
  static std::int64_t floats(std::int64_t rows, std::int64_t depth) { return rows * round_up(depth, kStretch); }
  float* row(std::int64_t stretch, std::int64_t i) const { return values + (stretch * rows + i) * kStretch; }
};

/// Group of x as code values; returns their scale. Aligned groups of whole vectors are done several at once.
template <class V>
float quantize_any_group(const bf16* x, std::int64_t count, Fp8Scale kind, float* codes) {
  const bool whole = count % V::kLanes == 0 && reinterpret_cast<std::uintptr_t>(codes) % sizeof(Floats<V>) == 0;
  return whole ? quantize_group<V>(x, count, kind, codes)
               : quantize_odd_group({x, static_cast<std::size_t>(count)}, kind, codes);
}

/// Row i of the input. scratch: [depth].
template <class V>
void widen_input_row(const WeightFormat& format, const bf16* x, const WideInput& wide, std::int64_t i, float* scratch) {
  if (format.is_fp8()) {
    for (std::int64_t k = 0; k < format.in; k += format.block) {
      const std::int64_t count = std::min<std::int64_t>(format.block, format.in - k);
      const float scale = quantize_any_group<V>(x + k, count, format.input_scale, scratch + k);
      for (std::int64_t j = k; j < k + count; ++j) scratch[j] *= scale;
    }
  } else {
    for (std::int64_t k = 0; k < format.in; ++k) scratch[k] = to_float(x[k]);
  }
  std::fill(scratch + format.in, scratch + wide.depth, 0.0f);
  for (std::int64_t s = 0; s < wide.stretches(); ++s) {
    std::copy_n(scratch + s * kStretch, wide.length(s), wide.row(s, i));
  }
}

}  // namespace skim::simd

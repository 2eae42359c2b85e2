// Functions of whole vectors, over a vector type V (kernels/<set>/vector.hpp). V is local to the files of its set, and
// with it whatever is made from these templates.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace skim::simd {

template <class V>
using Floats = typename V::Floats;
template <class V>
using Ints = typename V::Ints;
template <class V>
using Unsigned = typename V::Unsigned;
template <class V>
using Words = typename V::Words;

template <class V>
Floats<V> spread(float value) {
  return value - Floats<V>{};
}

/// `from` is aligned to the vector.
template <class V>
Floats<V> load(const float* from) {
  return *reinterpret_cast<const Floats<V>*>(from);
}
template <class V>
void store(float* to, Floats<V> value) {
  *reinterpret_cast<Floats<V>*>(to) = value;
}
template <class V>
Floats<V> load_unaligned(const float* from) {
  Floats<V> value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

/// round_bf16 of each lane that is no NaN, or a NaN whose lower half is 0: all that arithmetic makes of bf16 values and
/// powers of two. Other NaNs may become numbers.
template <class V>
Floats<V> round_bf16_product(Floats<V> value) {
  const auto bits = std::bit_cast<Unsigned<V>>(value);
  return std::bit_cast<Floats<V>>((bits + 0x7FFFu + ((bits >> 16) & 1u)) & ~0xFFFFu);
}

/// Nearest bf16 of each lane, ties to even; a NaN stays one, with its sign: skim::round_bf16.
template <class V>
Floats<V> round_bf16(Floats<V> value) {
  const auto bits = std::bit_cast<Unsigned<V>>(value);
  const auto nan = std::bit_cast<Floats<V>>((bits | 0x400000u) & ~0xFFFFu);
  return value == value ? round_bf16_product<V>(value) : nan;
}

/// e^x of each lane for x <= 0, to 2 ulp; below -87.3, where floats end, zero; NaN stays NaN. x = n ln2 + r with
/// |r| <= ln2 / 2; the polynomial in r is the one of the Cephes library.
template <class V>
Floats<V> exp_negative(Floats<V> x) {
  constexpr float kLowest = -87.3f, kRounder = 0x1.8p23f;  // adding kRounder leaves the nearest integer in the low bits
  const auto fma = V::multiply_add;
  const Ints<V> too_low = x < spread<V>(kLowest);
  const Floats<V> clamped = too_low ? spread<V>(kLowest) : x;
  const Floats<V> shifted = fma(clamped, spread<V>(1.44269504f), spread<V>(kRounder));
  const Floats<V> n = shifted - kRounder;
  const Floats<V> r = fma(n, spread<V>(2.12194440e-4f), fma(n, spread<V>(-0.693359375f), clamped));
  Floats<V> y = fma(r, spread<V>(1.9875691500e-4f), spread<V>(1.3981999507e-3f));
  y = fma(y, r, spread<V>(8.3334519073e-3f));
  y = fma(y, r, spread<V>(4.1665795894e-2f));
  y = fma(y, r, spread<V>(1.6666665459e-1f));
  y = fma(y, r, spread<V>(5.0000001201e-1f));
  y = fma(y, r * r, r) + 1.0f;
  const Ints<V> exponent = (std::bit_cast<Ints<V>>(shifted) - std::bit_cast<std::int32_t>(kRounder) + 127) << 23;
  return too_low ? spread<V>(0.0f) : y * std::bit_cast<Floats<V>>(exponent);
}

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

}  // namespace skim::simd

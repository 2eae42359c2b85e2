// Vectors of four floats and the loops built from them. GNU vector types compile to whatever 128-bit unit a processor
// has; products and sums stay separate operations, so every machine computes the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace skim::portable {

// may_alias: a vector is a look at plain floats in memory, not an object of its own.
using Floats = float __attribute__((vector_size(16), may_alias));
using Ints = std::int32_t __attribute__((vector_size(16), may_alias));
using Unsigned = std::uint32_t __attribute__((vector_size(16)));  ///< Ints whose sums may wrap.
using Shorts = std::uint16_t __attribute__((vector_size(16)));
using Bytes = std::uint8_t __attribute__((vector_size(16)));

inline constexpr int kLanes = 4;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

inline Floats spread(float value) { return Floats{value, value, value, value}; }

/// `from` must be aligned to 16 bytes: only then can the load be an operand of a multiplication on x86.
inline Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }
inline void store(float* to, Floats value) { *reinterpret_cast<Floats*>(to) = value; }

inline void store_unaligned(float* to, Floats value) { std::memcpy(to, &value, sizeof(value)); }

inline float sum_lanes(Floats v) { return (v[0] + v[1]) + (v[2] + v[3]); }

/// round_bf16 of each lane.
inline Floats round_bf16(Floats value) {
  const auto bits = std::bit_cast<Unsigned>(value);
  const Unsigned rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
  const auto is_nan = std::bit_cast<Unsigned>(value != value);
  return std::bit_cast<Floats>(((is_nan & (bits | 0x400000u)) | (~is_nan & rounded)) & ~0xFFFFu);
}

/// e^x of each lane for x <= 0, to 2 ulp; below -87.3, where floats end, zero. x = n ln2 + r with |r| <= ln2 / 2; the
/// polynomial in r is the one of the Cephes library.
inline Floats exp_negative(Floats x) {
  constexpr float kLowest = -87.3f, kRounder = 0x1.8p23f;  // adding kRounder leaves the nearest integer in the low bits
  const Ints too_low = x < spread(kLowest);
  const Floats clamped = too_low ? spread(kLowest) : x;
  const Floats shifted = clamped * 1.44269504f + kRounder;
  const Floats n = shifted - kRounder;
  const Floats r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats y = r * 1.9875691500e-4f + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * (r * r) + r + 1.0f;
  const Ints exponent = (std::bit_cast<Ints>(shifted) - std::bit_cast<std::int32_t>(kRounder) + 127) << 23;
  return too_low ? spread(0.0f) : y * std::bit_cast<Floats>(exponent);
}

/// Cuts `count` rows into the fewest tiles of at most `largest`, as even as possible: no tile is left with one row,
/// whose few independent sums could not hide the latency of an addition.
struct Tiles {
  std::int64_t count, tiles;
  Tiles(std::int64_t rows, std::int64_t largest) : count(rows), tiles((rows + largest - 1) / largest) {}
  std::int64_t first(std::int64_t tile) const { return count * tile / tiles; }
  std::int64_t size(std::int64_t tile) const { return first(tile + 1) - first(tile); }
};

/// A matrix whose rows start at multiples of 16 bytes and are zero from their end to the next multiple.
struct Rows {
  const float* data;
  std::int64_t count, stride;
  const float* row(std::int64_t i) const { return data + i * stride; }
};

/// out[i * out_stride + j] += a_i . b_j over `depth` > 0 elements, rounded up to a multiple of 4. Lane l of a dot sums
/// the elements l mod 4 in ascending order, then the lanes are added: the same bits whatever the number of rows.
void add_dots(Rows a, Rows b, std::int64_t depth, float* out, std::int64_t out_stride);

}  // namespace skim::portable

// Stored numbers to float32. Every value is code * scale, one rounding.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "formats/packed_rows.hpp"
#include "kernels/portable/vectors.hpp"

namespace skim::portable {

inline void widen_bf16(const bf16* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

/// Eight e4m3 codes, each in the upper byte of its lane. Sign, exponent and mantissa move to their places in a bf16,
/// which reads 2^-120 times the value because the exponent bias is 7 instead of 127; subnormal codes become subnormals.
inline void widen_eight_e4m3(Shorts codes, Floats scale, float* to) {
  constexpr float kRebias = 0x1p120f;
  const Shorts magnitude = (codes & 0x7F00) >> 4;
  const Shorts nan = (magnitude == 0x07F0) & 0x7FC0;
  const Shorts bits = (codes & 0x8000) | magnitude | nan;
  const Shorts zero{};
  const auto low = std::bit_cast<Floats>(__builtin_shufflevector(zero, bits, 0, 8, 1, 9, 2, 10, 3, 11));
  const auto high = std::bit_cast<Floats>(__builtin_shufflevector(zero, bits, 4, 12, 5, 13, 6, 14, 7, 15));
  store_unaligned(to, low * kRebias * scale);
  store_unaligned(to + kLanes, high * kRebias * scale);
}

/// In the header because a group may be as short as 32 codes.
inline void widen_e4m3(const std::uint8_t* codes, std::int64_t count, float scale, float* to) {
  const Floats scales = spread(scale);
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    Bytes bytes;
    std::memcpy(&bytes, codes + i, sizeof(bytes));
    const Bytes zero{};
    const Bytes low = __builtin_shufflevector(zero, bytes, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const Bytes high =
        __builtin_shufflevector(zero, bytes, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    widen_eight_e4m3(std::bit_cast<Shorts>(low), scales, to + i);
    widen_eight_e4m3(std::bit_cast<Shorts>(high), scales, to + i + 8);
  }
  for (; i < count; ++i) to[i] = e4m3_to_float(codes[i]) * scale;
}

/// unpack_row, several elements at a time.
void widen_row(RowLayout layout, const std::byte* row, float* to);
/// unpack_codes of fp8 rows, several elements at a time.
void widen_codes(RowLayout layout, const std::byte* row, float* to);

}  // namespace skim::portable

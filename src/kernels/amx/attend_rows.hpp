// Cache rows as operands of tiles: as they are, to meet the queries, and by interleaved pairs of rows, to be averaged.
#pragma once

#include "formats/e2m1.hpp"
#include "kernels/amx/tiles.hpp"
#include "kernels/amx/widen.hpp"
#include "kernels/avx512/vector.hpp"
#include "kernels/simd/attend.hpp"

namespace skim::amx {
namespace {

using avx512::Vector;

/// Columns whose pairs of rows make two tiles, and rows of one step of the average.
inline constexpr int kValueColumns = 32, kValueRows = 32;
inline constexpr std::int64_t kValueSteps = kAttendBlock / kValueRows;

/// The bf16 of each e2m1 code times each e4m3 scale: exact, since their products have five bits.
inline constexpr auto kScaledE2m1 = [] {
  std::array<std::array<std::uint16_t, 16>, 256> words{};
  for (std::size_t scale = 0; scale < 256; ++scale) {
    for (std::size_t code = 0; code < 16; ++code) {
      const float value = kE2m1Values[code] * kE4m3Values[scale];
      words[scale][code] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    }
  }
  return words;
}();

/// 32 e2m1 codes of two groups of 16.
inline __m512i widen_scaled_e2m1(const std::uint8_t* packed, std::uint8_t first_scale, std::uint8_t second_scale) {
  const __m512i byte = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed)));
  // Both codes of a byte into the words of its lane; those of the second group look up the second half of the table.
  const __m512i both = _mm512_or_si512(byte, _mm512_slli_epi32(byte, 12));
  const __m512i code = _mm512_and_si512(both, _mm512_set1_epi32(0x000F000F));
  const __m512i place = _mm512_mask_or_epi32(code, 0xFF00, code, _mm512_set1_epi32(0x00100010));
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kScaledE2m1[first_scale].data()));
  const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kScaledE2m1[second_scale].data()));
  return _mm512_permutexvar_epi16(place, _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
}

/// A packed row as bf16 [round_up(width, 32)]. floats: [round_up(width, 32)], scratch, zeros beyond the width.
inline void narrow_row(const RowLayout& layout, const std::byte* row, float* floats, bf16* to) {
  auto* const words = reinterpret_cast<__m512i*>(to);
  if (layout.format == RowFormat::fp4_e4m3 && layout.width % 32 == 0 && layout.tail == 0) {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(row);
    const std::uint8_t* scales = codes + layout.code_bytes();
    for (int i = 0; i < layout.width / 32; ++i) {
      words[i] = widen_scaled_e2m1(codes + 16 * i, scales[2 * i], scales[2 * i + 1]);
    }
    return;
  }
  simd::widen_row<Vector>(layout, row, floats);
  for (int i = 0; i < (layout.width + 31) / 32; ++i) {
    words[i] = pack_bf16(_mm512_load_ps(floats + 32 * i), _mm512_load_ps(floats + 32 * i + 16));
  }
}

/// Pairs of rows [kAttendBlock, row_stride] into right operands: values[columns / 32][kValueSteps][2][kTile pairs][64
/// bytes]. Column c of tile j of 32 columns is column (c / 4) * 8 + j * 4 + c % 4 of the row.
inline void interleave_rows(const bf16* rows, std::int64_t row_stride, std::int64_t columns, std::byte* values) {
  for (std::int64_t pair = 0; pair < kAttendBlock / 2; ++pair) {
    const bf16* even = rows + 2 * pair * row_stride;
    const bf16* odd = even + row_stride;
    for (std::int64_t column = 0; column < columns; column += kValueColumns) {
      const __m512i a = _mm512_loadu_si512(even + column), b = _mm512_loadu_si512(odd + column);
      std::byte* const to =
          values + (column / kValueColumns * kValueSteps + pair / kTile) * 2 * kTileBytes + pair % kTile * 64;
      _mm512_store_si512(to, _mm512_unpacklo_epi16(a, b));
      _mm512_store_si512(to + kTileBytes, _mm512_unpackhi_epi16(a, b));
    }
  }
}

/// Undoes the order of columns that interleave_rows makes, in place.
inline void order_columns(float* row, std::int64_t columns) {
  const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i high = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  for (std::int64_t column = 0; column < columns; column += kValueColumns) {
    const __m512 a = _mm512_load_ps(row + column), b = _mm512_load_ps(row + column + kTile);
    _mm512_store_ps(row + column, _mm512_permutex2var_ps(a, low, b));
    _mm512_store_ps(row + column + kTile, _mm512_permutex2var_ps(a, high, b));
  }
}

/// to[j][i] = from[i][j]: 16 by 16 lanes of 32 bits, in four rounds that each exchange halves of ever larger blocks.
inline void transpose(const __m512i (&from)[kTile], __m512i* to) {
  __m512i a[kTile], b[kTile];
  for (int i = 0; i < kTile; i += 2) {
    a[i] = _mm512_unpacklo_epi32(from[i], from[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(from[i], from[i + 1]);
  }
  for (int i = 0; i < kTile; i += 4) {
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = _mm512_unpacklo_epi64(a[i + j], a[i + 2 + j]);
      b[i + 2 * j + 1] = _mm512_unpackhi_epi64(a[i + j], a[i + 2 + j]);
    }
  }
  // b[4 r + c] holds, in 128-bit lane l, rows 4 r to 4 r + 3 of column 4 l + c.
  for (int c = 0; c < 4; ++c) {
    const __m512i low = _mm512_shuffle_i32x4(b[c], b[4 + c], 0x88),
                  low_odd = _mm512_shuffle_i32x4(b[c], b[4 + c], 0xDD);
    const __m512i high = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0x88);
    const __m512i high_odd = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0xDD);
    to[c] = _mm512_shuffle_i32x4(low, high, 0x88);
    to[8 + c] = _mm512_shuffle_i32x4(low, high, 0xDD);
    to[4 + c] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
    to[12 + c] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xDD);
  }
}

}  // namespace
}  // namespace skim::amx

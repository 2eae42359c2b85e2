// Stored numbers to bf16, the operands of tiles.
#pragma once

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstdint>

#include "formats/e4m3.hpp"

namespace skim::amx {
namespace {

/// The upper halves of floats a (first) and b.
inline __m512i pack_bf16(__m512 a, __m512 b) {
  const __m512i odd_words = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                                             25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_permutex2var_epi16(_mm512_castps_si512(a), odd_words, _mm512_castps_si512(b));
}

/// The bf16 of each e4m3 magnitude, cut into bytes for lookups by 64 codes at a time. Scaled by powers of two, every
/// value stays exact.
class E4m3Table {
 public:
  E4m3Table() { set_exponent(0); }

  /// Values times 2^exponent, which must leave 2^-9 to 448 within the range of bf16.
  void set_exponent(int exponent) {
    if (exponent == exponent_) return;
    exponent_ = exponent;
    const __m512i step = _mm512_set1_epi16(static_cast<short>(exponent * 128));
    __m256i low[4], high[4];
    for (int i = 0; i < 4; ++i) {
      const __m512i words = _mm512_loadu_si512(kWords.data() + 32 * i);
      // Zero (magnitude 0) and NaN (127) have no exponent to move.
      const __mmask32 finite = i == 0 ? 0xFFFFFFFEu : i == 3 ? 0x7FFFFFFFu : 0xFFFFFFFFu;
      const __m512i moved = _mm512_mask_add_epi16(words, finite, words, step);
      low[i] = _mm512_cvtepi16_epi8(moved);
      high[i] = _mm512_cvtepi16_epi8(_mm512_srli_epi16(moved, 8));
    }
    for (int i = 0; i < 2; ++i) {
      low_[i] = _mm512_inserti64x4(_mm512_castsi256_si512(low[2 * i]), low[2 * i + 1], 1);
      high_[i] = _mm512_inserti64x4(_mm512_castsi256_si512(high[2 * i]), high[2 * i + 1], 1);
    }
  }

  /// 64 codes. Of each 16, the first eight go to `first`, the others to `second`, 16 bytes each.
  void widen(const std::uint8_t* codes, __m512i& first, __m512i& second) const {
    const __m512i code = _mm512_loadu_si512(codes);
    const __m512i low = _mm512_permutex2var_epi8(low_[0], code, low_[1]);
    const __m512i magnitude = _mm512_permutex2var_epi8(high_[0], code, high_[1]);
    // magnitude | (code & 0x80)
    const __m512i high = _mm512_ternarylogic_epi32(magnitude, code, _mm512_set1_epi8(-128), 0xF8);
    first = _mm512_unpacklo_epi8(low, high);
    second = _mm512_unpackhi_epi8(low, high);
  }

 private:
  static constexpr std::array<std::uint16_t, 128> kWords = [] {
    std::array<std::uint16_t, 128> words{};
    for (unsigned code = 0; code < 128; ++code) {
      words[code] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(kE4m3Values[code]) >> 16);
    }
    return words;
  }();

  int exponent_ = -1000;  // none yet
  __m512i low_[2], high_[2];
};

}  // namespace
}  // namespace skim::amx

// Four-bit codes by the 128-bit instructions that all vector sets of x86 have. Included only by files of such sets.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace skim::simd {
namespace {

/// What the vectors of x86 sets have in common.
struct X86Codes {
  /// Bits of a float16 that an e4m3 code can set.
  static constexpr short kHalfBits = static_cast<short>(0xBF80);

  /// table[code] of 32 four-bit codes in their order; to: aligned to 16 bytes.
  static void look_up_codes(const std::uint8_t* packed, const std::int8_t (&table)[16], void* to) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    __m128i codes[2];
    separate_codes(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed)), codes);
    _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(values, codes[0]));
    _mm_store_si128(reinterpret_cast<__m128i*>(to) + 1, _mm_shuffle_epi8(values, codes[1]));
  }

 protected:
  /// Upper bytes of the float16 of the 32 e2m1 codes in `bytes`; their lower bytes are 0.
  static void e2m1_upper_bytes(__m128i bytes, __m128i (&upper)[2]) {
    const __m128i values = _mm_setr_epi8(0, 0x38, 0x3C, 0x3E, 0x40, 0x42, 0x44, 0x46, -0x80, -0x48, -0x44, -0x42, -0x40,
                                         -0x3E, -0x3C, -0x3A);
    __m128i codes[2];
    separate_codes(bytes, codes);
    for (int i = 0; i < 2; ++i) upper[i] = _mm_shuffle_epi8(values, codes[i]);
  }

 private:
  /// Two codes per byte to one, in their order.
  static void separate_codes(__m128i bytes, __m128i (&codes)[2]) {
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i low = _mm_and_si128(bytes, nibble), high = _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble);
    codes[0] = _mm_unpacklo_epi8(low, high);
    codes[1] = _mm_unpackhi_epi8(low, high);
  }
};

}  // namespace
}  // namespace skim::simd

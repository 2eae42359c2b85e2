// Sixteen floats of AVX-512 (F, BW, DQ, VL, VBMI, VNNI): what the kernels of kernels/simd/ are written over. Included
// only by files of this set and of amx; the anonymous namespace keeps every function made from it out of other sets'
// hands.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/x86_codes.hpp"

namespace skim::avx512 {
namespace {

struct Vector : simd::X86Codes {
  using Floats = float __attribute__((vector_size(64), may_alias));
  using Ints = std::int32_t __attribute__((vector_size(64), may_alias));
  using Unsigned = std::uint32_t __attribute__((vector_size(64)));  ///< Ints whose sums may wrap.
  using Words = std::uint16_t __attribute__((vector_size(32)));
  using Bytes = std::uint8_t __attribute__((vector_size(16)));
  static constexpr int kLanes = 16;
  /// Rows of a tile of running sums, each of two vectors: 16 of the 32 registers, twice what hides the latency.
  static constexpr int kTileRows = 8;
  /// Keys whose index dots are summed at one time: 12 sums hide the latency of a dot of four.
  static constexpr int kTileKeys = 6;

  static Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  /// The larger of each lane; b where a is NaN.
  static Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static Floats to_floats(Ints values) { return _mm512_cvtepi32_ps(reinterpret_cast<__m512i>(values)); }
  static float sum(Floats value) { return _mm512_reduce_add_ps(value); }
  /// Bit l is set where a >= b.
  static std::uint32_t at_least(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }

  /// kLanes e4m3 codes as floats 2^-8 times their value: sign, exponent and mantissa move to their places in a float16,
  /// whose exponent bias is 15 instead of 7 and whose subnormals are converted without delay. NaN codes become 480.
  static Floats widen_e4m3(const std::uint8_t* codes) {
    const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(kHalfBits)));
  }
  /// 2 * kLanes e2m1 codes in their order.
  static void widen_e2m1(const std::uint8_t* packed, Floats* to) {
    __m128i upper[2];
    e2m1_upper_bytes(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed)), upper);
    for (int i = 0; i < 2; ++i) to[i] = _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(upper[i]), 8));
  }
  /// e4m3 codes [2 * kLanes columns][2]: `even` and `odd` get two vectors each, 2^-8 times the values.
  static void widen_e4m3_pairs(const std::uint8_t* codes, Floats* even, Floats* odd) {
    const __m512i pairs = _mm512_loadu_si512(codes);
    const __m512i mask = _mm512_set1_epi16(kHalfBits);
    const __m512i first = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi16(pairs, 8), 1), mask);
    const __m512i second = _mm512_and_si512(_mm512_srai_epi16(pairs, 1), mask);
    even[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(first));
    even[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(first, 1));
    odd[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(second));
    odd[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(second, 1));
  }

  /// start + dots of 32 elements of keys i, bytes at keys + i * key_stride from 0 to 24, with kLanes heads twice:
  /// heads[8][2][kLanes][4] in +-12.
  static void index_dots(const std::uint8_t* keys, std::int64_t key_stride, const std::int8_t* heads,
                         const Ints (&start)[2], Ints (*dots)[2]) {
    __m512i sums[kTileKeys][2];
    for (int key = 0; key < kTileKeys; ++key) {
      for (int half = 0; half < 2; ++half) sums[key][half] = reinterpret_cast<__m512i>(start[half]);
    }
    for (int step = 0; step < 8; ++step) {
      const __m512i first = _mm512_load_si512(heads + 128 * step);
      const __m512i second = _mm512_load_si512(heads + 128 * step + 64);
      for (int key = 0; key < kTileKeys; ++key) {
        const __m512i four =
            _mm512_set1_epi32(*reinterpret_cast<const MayAliasInt*>(keys + key * key_stride + 4 * step));
        sums[key][0] = _mm512_dpbusd_epi32(sums[key][0], four, first);
        sums[key][1] = _mm512_dpbusd_epi32(sums[key][1], four, second);
      }
    }
    for (int key = 0; key < kTileKeys; ++key) {
      for (int half = 0; half < 2; ++half) dots[key][half] = reinterpret_cast<Ints>(sums[key][half]);
    }
  }

 private:
  using MayAliasInt = std::int32_t __attribute__((may_alias));
};

}  // namespace
}  // namespace skim::avx512

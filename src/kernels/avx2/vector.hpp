// Eight floats of AVX2, with FMA and F16C: what the kernels of kernels/simd/ are written over. Included only by files
// of this set; the anonymous namespace keeps every function made from it out of other sets' hands.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/x86_codes.hpp"

namespace skim::avx2 {
namespace {

struct Vector : simd::X86Codes {
  using Floats = float __attribute__((vector_size(32), may_alias));
  using Ints = std::int32_t __attribute__((vector_size(32), may_alias));
  using Unsigned = std::uint32_t __attribute__((vector_size(32)));  ///< Ints whose sums may wrap.
  using Words = std::uint16_t __attribute__((vector_size(16)));
  using Bytes = std::uint8_t __attribute__((vector_size(8)));
  static constexpr int kLanes = 8;
  /// Rows of a tile of running sums, each of two vectors: 12 of the 16 registers.
  static constexpr int kTileRows = 6;
  /// Keys whose index dots are summed at one time.
  static constexpr int kTileKeys = 2;

  static Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  /// The larger of each lane; b where a is NaN.
  static Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static Floats to_floats(Ints values) { return _mm256_cvtepi32_ps(reinterpret_cast<__m256i>(values)); }
  static float sum(Floats value) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  /// Bit l is set where a >= b.
  static std::uint32_t at_least(Floats a, Floats b) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
  }

  /// kLanes e4m3 codes as floats 2^-8 times their value: sign, exponent and mantissa move to their places in a float16,
  /// whose exponent bias is 15 instead of 7 and whose subnormals are converted without delay. NaN codes become 480.
  static Floats widen_e4m3(const std::uint8_t* codes) {
    const __m128i words = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
    const __m128i halves = _mm_and_si128(_mm_slli_epi16(words, 7), _mm_set1_epi16(kHalfBits));
    return _mm256_cvtph_ps(halves);
  }
  /// 2 * kLanes e2m1 codes in their order.
  static void widen_e2m1(const std::uint8_t* packed, Floats* to) {
    __m128i upper[2];  // 16 codes fill the first
    e2m1_upper_bytes(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed)), upper);
    to[0] = _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), upper[0]));
    to[1] = _mm256_cvtph_ps(_mm_unpackhi_epi8(_mm_setzero_si128(), upper[0]));
  }
  /// e4m3 codes [2 * kLanes columns][2]: `even` and `odd` get two vectors each, 2^-8 times the values.
  static void widen_e4m3_pairs(const std::uint8_t* codes, Floats* even, Floats* odd) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    const __m256i mask = _mm256_set1_epi16(kHalfBits);
    const __m256i first = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(pairs, 8), 1), mask);
    const __m256i second = _mm256_and_si256(_mm256_srai_epi16(pairs, 1), mask);
    even[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(first));
    even[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(first, 1));
    odd[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(second));
    odd[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(second, 1));
  }

  /// start + dots of 32 elements of keys i, bytes at keys + i * key_stride from 0 to 24, with kLanes heads twice:
  /// heads[8][2][kLanes][4] in +-12. Pairs of products fit 16 bits, and so do eight of them.
  static void index_dots(const std::uint8_t* keys, std::int64_t key_stride, const std::int8_t* heads,
                         const Ints (&start)[2], Ints (*dots)[2]) {
    __m256i sums[kTileKeys][2] = {};
    for (int step = 0; step < 8; ++step) {
      const __m256i first = _mm256_load_si256(reinterpret_cast<const __m256i*>(heads) + 2 * step);
      const __m256i second = _mm256_load_si256(reinterpret_cast<const __m256i*>(heads) + 2 * step + 1);
      for (int key = 0; key < kTileKeys; ++key) {
        const __m256i four =
            _mm256_set1_epi32(*reinterpret_cast<const MayAliasInt*>(keys + key * key_stride + 4 * step));
        sums[key][0] = _mm256_add_epi16(sums[key][0], _mm256_maddubs_epi16(four, first));
        sums[key][1] = _mm256_add_epi16(sums[key][1], _mm256_maddubs_epi16(four, second));
      }
    }
    const __m256i ones = _mm256_set1_epi16(1);
    for (int key = 0; key < kTileKeys; ++key) {
      for (int half = 0; half < 2; ++half) {
        dots[key][half] = start[half] + reinterpret_cast<Ints>(_mm256_madd_epi16(sums[key][half], ones));
      }
    }
  }

 private:
  using MayAliasInt = std::int32_t __attribute__((may_alias));
};

}  // namespace
}  // namespace skim::avx2

#include <immintrin.h>

#include "bench/probes/probes.hpp"

namespace skim::bench::avx2 {

double float_products(std::int64_t rounds) {
  constexpr int chains = 12;  // in flight, so that latency does not count
  __m256 sums[chains] = {};
  const __m256 factor = _mm256_set1_ps(0.5f);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, factor, factor);
      asm volatile("" : "+x"(sum));
    }
  }
  return static_cast<double>(rounds) * chains * 8 * 2;
}

double int8_products(std::int64_t rounds) {
  constexpr int chains = 8;
  __m256i sums[chains] = {};
  __m256i left = _mm256_set1_epi8(3), right = _mm256_set1_epi8(-5), ones = _mm256_set1_epi16(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m256i& sum : sums) {
      asm volatile("" : "+x"(left));  // the product is computed anew
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(left, right), ones));
      asm volatile("" : "+x"(sum));
    }
  }
  return static_cast<double>(rounds) * chains * 32 * 2;
}

std::uint64_t read(const std::byte* first, std::int64_t bytes) {
  __m256i sums[4] = {};
  for (std::int64_t step = 0; step < bytes / 512; ++step) {
    const auto* words = reinterpret_cast<const __m256i*>(first + step * 512);
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sums[j] = _mm256_xor_si256(sums[j], _mm256_loadu_si256(words + i + j));
    }
  }
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  return static_cast<std::uint64_t>(all[0] ^ all[1] ^ all[2] ^ all[3]);
}

}  // namespace skim::bench::avx2

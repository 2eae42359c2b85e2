#include <immintrin.h>

#include "bench/probes/probes.hpp"

namespace skim::bench::avx512 {
namespace {

constexpr int kChains = 16;  // in flight, so that latency does not count

}  // namespace

double float_products(std::int64_t rounds) {
  __m512 sums[kChains] = {};
  const __m512 factor = _mm512_set1_ps(0.5f);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, factor, factor);
      asm volatile("" : "+v"(sum));
    }
  }
  return static_cast<double>(rounds) * kChains * 16 * 2;
}

double bf16_products(std::int64_t rounds) {
  __m512 sums[kChains] = {};
  const __m512i halves = _mm512_set1_epi16(0x3F00);  // 0.5
  const auto factors = reinterpret_cast<__m512bh>(halves);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, factors, factors);
      asm volatile("" : "+v"(sum));
    }
  }
  return static_cast<double>(rounds) * kChains * 32 * 2;
}

double int8_products(std::int64_t rounds) {
  __m512i sums[kChains] = {};
  const __m512i left = _mm512_set1_epi8(3), right = _mm512_set1_epi8(-5);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, left, right);
      asm volatile("" : "+v"(sum));
    }
  }
  return static_cast<double>(rounds) * kChains * 64 * 2;
}

std::uint64_t read(const std::byte* first, std::int64_t bytes) {
  __m512i sums[4] = {};
  for (std::int64_t step = 0; step < bytes / 512; ++step) {
    const std::byte* const words = first + step * 512;
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sums[j] = _mm512_xor_si512(sums[j], _mm512_loadu_si512(words + (i + j) * 64));
    }
  }
  const __m512i all = _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
  std::uint64_t result = 0;
  for (int i = 0; i < 8; ++i) result ^= static_cast<std::uint64_t>(all[i]);
  return result;
}

}  // namespace skim::bench::avx512

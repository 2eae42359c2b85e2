#include "bench/probes/probes.hpp"

namespace skim::bench::baseline {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Words = std::uint64_t __attribute__((vector_size(16), aligned(1), may_alias));

}  // namespace

double float_products(std::int64_t rounds) {
  constexpr int chains = 10;  // in flight, so that latency does not count
  Floats sums[chains] = {};
  Floats factor = {0.5f, 0.5f, 0.5f, 0.5f}, addend = factor;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (Floats& sum : sums) {
      sum = sum * factor + addend;
      asm volatile("" : "+x"(sum));
    }
  }
  return static_cast<double>(rounds) * chains * 4 * 2;
}

std::uint64_t read(const std::byte* first, std::int64_t bytes) {
  Words sums[4] = {};
  for (std::int64_t step = 0; step < bytes / 512; ++step) {
    const auto* words = reinterpret_cast<const Words*>(first + step * 512);
#pragma GCC unroll 8
    for (int i = 0; i < 32; i += 4) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sums[j] ^= words[i + j];
    }
  }
  const Words all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  return all[0] ^ all[1];
}

}  // namespace skim::bench::baseline

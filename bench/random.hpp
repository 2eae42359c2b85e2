// Operands that are made up fast: what they hold hardly matters to how long an operation takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_rows.hpp"
#include "kernels/kernels.hpp"
#include "kernels/memory.hpp"
#include "skim/tensor.hpp"

namespace skim::bench {

/// Uniform 64-bit numbers; the same seed draws the same ones (splitmix64).
class RandomWords {
 public:
  explicit RandomWords(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Each word of `bytes` is next() & keep | set.
  void fill(std::span<std::byte> bytes, std::uint64_t keep = ~std::uint64_t{0}, std::uint64_t set = 0);

 private:
  std::uint64_t state_;
};

/// e4m3 codes of magnitude less than 2: any but the highest bit of the exponent.
inline constexpr std::uint64_t kSmallE4m3 = 0xBFBFBFBFBFBFBFBFu;

/// bf16 values between 1/2 and 2 of either sign.
std::vector<bf16> random_values(RandomWords& random, std::int64_t count);
/// float32 values of the same kind.
std::vector<float> random_floats(RandomWords& random, std::int64_t count);
/// `count` packed rows, one behind the other, of values of about that size.
void random_rows(RandomWords& random, RowLayout layout, std::byte* rows, std::int64_t count);
/// `count` different positions below `limit`, ascending, spread over all of it.
std::vector<std::int32_t> random_positions(RandomWords& random, std::int64_t limit, std::int64_t count);

/// Random rows in pages, as a cache holds them.
class RandomPages {
 public:
  RandomPages(RandomWords& random, RowLayout layout, std::int64_t rows);
  ConstPagedRows rows() const { return {starts_.data(), kPageRows, row_bytes_}; }

 private:
  static constexpr std::int64_t kPageRows = 256;  // as in CacheOptions

  std::int64_t row_bytes_;
  Buffer bytes_;
  std::vector<const std::byte*> starts_;
};

}  // namespace skim::bench

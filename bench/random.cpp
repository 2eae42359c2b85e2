#include "bench/random.hpp"

#include <algorithm>
#include <cstring>

namespace skim::bench {

void RandomWords::fill(std::span<std::byte> bytes, std::uint64_t keep, std::uint64_t set) {
  for (std::size_t first = 0; first < bytes.size(); first += sizeof(std::uint64_t)) {
    const std::uint64_t word = (next() & keep) | set;
    std::memcpy(bytes.data() + first, &word, std::min(sizeof(word), bytes.size() - first));
  }
}

std::vector<bf16> random_values(RandomWords& random, std::int64_t count) {
  std::vector<bf16> values(static_cast<std::size_t>(count));
  random.fill(std::as_writable_bytes(std::span(values)), 0x80FF80FF80FF80FFu, 0x3F003F003F003F00u);
  return values;
}

std::vector<float> random_floats(RandomWords& random, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  random.fill(std::as_writable_bytes(std::span(values)), 0x80FFFFFF80FFFFFFu, 0x3F0000003F000000u);
  return values;
}

void random_rows(RandomWords& random, RowLayout layout, std::byte* rows, std::int64_t count) {
  const auto codes = static_cast<std::size_t>(layout.code_bytes()),
             scales = static_cast<std::size_t>(layout.scale_bytes());
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* row = rows + i * layout.bytes();
    random.fill({row, codes}, layout.is_fp8() ? kSmallE4m3 : ~std::uint64_t{0});
    switch (layout.format) {
      case RowFormat::fp8_e8m0:  // 1 or 1/2
      case RowFormat::fp8_e8m0_64:
        random.fill({row + codes, scales}, 0x0101010101010101u, 0x7E7E7E7E7E7E7E7Eu);
        break;
      case RowFormat::fp4_e8m0:  // 1/4 or 1/2
        random.fill({row + codes, scales}, 0x0101010101010101u, 0x7C7C7C7C7C7C7C7Cu);
        break;
      case RowFormat::fp4_e4m3:  // 1/4 to 15/32
        random.fill({row + codes, scales}, 0x0707070707070707u, 0x2828282828282828u);
        break;
      case RowFormat::fp8_f32:  // 1 or 1/2
        random.fill({row + codes, scales}, 0x0080000000800000u, 0x3F0000003F000000u);
        break;
    }
    random.fill({row + codes + scales, static_cast<std::size_t>(layout.tail) * 2}, 0x80FF80FF80FF80FFu,
                0x3F003F003F003F00u);
  }
}

std::vector<std::int32_t> random_positions(RandomWords& random, std::int64_t limit, std::int64_t count) {
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < count; ++i) {  // one out of each of `count` stretches
    const std::int64_t first = i * limit / count, last = (i + 1) * limit / count;
    positions.push_back(static_cast<std::int32_t>(
        first + static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(last - first))));
  }
  return positions;
}

RandomPages::RandomPages(RandomWords& random, RowLayout layout, std::int64_t rows)
    : row_bytes_(layout.bytes()), bytes_(host_memory(), rows * row_bytes_) {
  random_rows(random, layout, bytes_.data(), rows);
  for (std::int64_t first = 0; first < rows; first += kPageRows) starts_.push_back(bytes_.data() + first * row_bytes_);
}

}  // namespace skim::bench

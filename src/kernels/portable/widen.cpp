#include "kernels/portable/widen.hpp"

#include <array>

#include "formats/e2m1.hpp"
#include "formats/e8m0.hpp"

namespace skim::portable {
namespace {

/// Both values of each byte of e2m1 codes.
constexpr std::array<std::array<float, 2>, 256> kE2m1Pairs = [] {
  std::array<std::array<float, 2>, 256> pairs{};
  for (std::size_t byte = 0; byte < 256; ++byte) pairs[byte] = {kE2m1Values[byte & 15], kE2m1Values[byte >> 4]};
  return pairs;
}();

void widen_e2m1(const std::uint8_t* packed, std::int64_t count, float scale, float* to) {
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const auto& low = kE2m1Pairs[packed[i / 2]];
    const auto& high = kE2m1Pairs[packed[i / 2 + 1]];
    store_unaligned(to + i, Floats{low[0], low[1], high[0], high[1]} * scale);
  }
}

}  // namespace

void widen_row(RowLayout layout, const std::byte* row, float* to) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(row);
  const std::uint8_t* scales = codes + layout.code_bytes();
  const int group = row_group(layout.format);
  for (int first = 0; first < layout.width; first += group) {
    const std::uint8_t scale = scales[first / group];
    switch (layout.format) {
      case RowFormat::fp8_e8m0:
        widen_e4m3(codes + first, group, e8m0_to_float(scale), to + first);
        break;
      case RowFormat::fp4_e4m3:
        widen_e2m1(codes + first / 2, group, e4m3_to_float(scale), to + first);
        break;
      case RowFormat::fp4_e8m0:
        widen_e2m1(codes + first / 2, group, e8m0_to_float(scale), to + first);
        break;
    }
  }
}

}  // namespace skim::portable

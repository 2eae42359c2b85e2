#include "kernels/portable/widen.hpp"

#include <algorithm>
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

void round_all_bf16(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = skim::round_bf16(values[i]);
}

}  // namespace

void widen_row(RowLayout layout, const std::byte* row, float* to) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(row);
  const std::uint8_t* scales = codes + layout.code_bytes();
  const int size = row_group(layout.format);
  for (int group = 0; group < layout.groups(); ++group) {
    const int first = group * size;
    switch (layout.format) {
      case RowFormat::fp8_e8m0:
      case RowFormat::fp8_e8m0_64:
        widen_e4m3(codes + first, size, e8m0_to_float(scales[group]), to + first);
        break;
      case RowFormat::fp4_e4m3:
        widen_e2m1(codes + first / 2, size, e4m3_to_float(scales[group]), to + first);
        break;
      case RowFormat::fp4_e8m0:
        widen_e2m1(codes + first / 2, size, e8m0_to_float(scales[group]), to + first);
        break;
      case RowFormat::fp8_f32: {
        const int count = std::min(size, layout.quantized() - first);
        widen_e4m3(codes + first, count, row_scale(layout, row, group), to + first);
        if (layout.fp8_scale == Fp8Scale::float32) round_all_bf16(to + first, count);
        break;
      }
    }
  }
  bf16 value;
  const std::byte* tail = row + layout.code_bytes() + layout.scale_bytes();
  for (int i = 0; i < layout.tail; ++i) {
    std::memcpy(&value, tail + i * static_cast<int>(sizeof(value)), sizeof(value));
    to[layout.quantized() + i] = to_float(value);
  }
}

void widen_codes(RowLayout layout, const std::byte* row, float* to) {
  widen_e4m3(reinterpret_cast<const std::uint8_t*>(row), layout.quantized(), 1.0f, to);
}

}  // namespace skim::portable

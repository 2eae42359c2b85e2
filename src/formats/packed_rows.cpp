#include "formats/packed_rows.hpp"

#include <span>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "formats/quantize.hpp"

namespace skim {
namespace {

const std::uint8_t* as_codes(const std::byte* bytes) { return reinterpret_cast<const std::uint8_t*>(bytes); }

float scale_value(RowFormat format, std::uint8_t code) {
  return format == RowFormat::fp4_e4m3 ? e4m3_to_float(code) : e8m0_to_float(code);
}

template <class Store>
void for_each_value(RowLayout layout, const std::byte* row, Store store) {
  const std::uint8_t* codes = as_codes(row);
  const std::uint8_t* scales = codes + layout.code_bytes();
  const int group = row_group(layout.format);
  for (int first = 0; first < layout.width; first += group) {
    const float scale = scale_value(layout.format, scales[first / group]);
    for (int i = first; i < first + group; ++i) {
      const float code = layout.format == RowFormat::fp8_e8m0
                             ? e4m3_to_float(codes[i])
                             : e2m1_to_float(static_cast<std::uint8_t>(codes[i / 2] >> (4 * (i & 1))));
      store(i, code * scale);
    }
  }
}

}  // namespace

void pack_row(RowLayout layout, const bf16* x, std::byte* row) {
  auto* codes = reinterpret_cast<std::uint8_t*>(row);
  std::uint8_t* scales = codes + layout.code_bytes();
  const int group = row_group(layout.format);
  for (int first = 0; first < layout.width; first += group) {
    const std::span<const bf16> values(x + first, static_cast<std::size_t>(group));
    std::uint8_t& scale = scales[first / group];
    switch (layout.format) {
      case RowFormat::fp8_e8m0:
        scale = e8m0_pow2ceil(fp8_group_scale(values, Fp8Scale::float32));
        fp8_group_codes(values, e8m0_to_float(scale), codes + first);
        break;
      case RowFormat::fp4_e4m3:
        scale = fp4_group_scale_e4m3(values);
        fp4_group_codes(values, e4m3_to_float(scale), codes + first / 2);
        break;
      case RowFormat::fp4_e8m0:
        scale = fp4_group_scale_e8m0(values);
        fp4_group_codes(values, e8m0_to_float(scale), codes + first / 2);
        break;
    }
  }
}

void unpack_row(RowLayout layout, const std::byte* row, float* x) {
  for_each_value(layout, row, [x](int i, float value) { x[i] = value; });
}

void unpack_row(RowLayout layout, const std::byte* row, bf16* x) {
  for_each_value(layout, row, [x](int i, float value) { x[i] = to_bf16(value); });
}

}  // namespace skim

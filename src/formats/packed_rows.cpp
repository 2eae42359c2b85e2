#include "formats/packed_rows.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "formats/quantize.hpp"

namespace skim {
namespace {

const std::uint8_t* as_codes(const std::byte* bytes) { return reinterpret_cast<const std::uint8_t*>(bytes); }

float code_value(RowLayout layout, const std::uint8_t* codes, int i) {
  return layout.is_fp8() ? e4m3_to_float(codes[i])
                         : e2m1_to_float(static_cast<std::uint8_t>(codes[i / 2] >> (4 * (i & 1))));
}

const std::byte* tail_of(RowLayout layout, const std::byte* row) {
  return row + layout.code_bytes() + layout.scale_bytes();
}

template <class Store>
void for_each_value(RowLayout layout, const std::byte* row, Store store) {
  const std::uint8_t* codes = as_codes(row);
  const int size = row_group(layout.format);
  for (int group = 0; group < layout.groups(); ++group) {
    const float scale = row_scale(layout, row, group);
    const int last = std::min((group + 1) * size, layout.quantized());
    for (int i = group * size; i < last; ++i) store(i, to_bf16(code_value(layout, codes, i) * scale));
  }
  for (int i = 0; i < layout.tail; ++i) {
    bf16 value;
    std::memcpy(&value, tail_of(layout, row) + i * 2, sizeof(value));
    store(layout.quantized() + i, value);
  }
}

}  // namespace

void pack_row(RowLayout layout, const bf16* x, std::byte* row) {
  auto* codes = reinterpret_cast<std::uint8_t*>(row);
  std::uint8_t* scales = codes + layout.code_bytes();
  const int size = row_group(layout.format);
  for (int group = 0; group < layout.groups(); ++group) {
    const int first = group * size;
    const int count = std::min(size, layout.quantized() - first);
    const std::span<const bf16> values(x + first, static_cast<std::size_t>(count));
    switch (layout.format) {
      case RowFormat::fp8_e8m0:
      case RowFormat::fp8_e8m0_64:
        scales[group] = e8m0_pow2ceil(fp8_group_scale(values, Fp8Scale::float32));
        fp8_group_codes(values, e8m0_to_float(scales[group]), codes + first);
        break;
      case RowFormat::fp4_e4m3:
        scales[group] = fp4_group_scale_e4m3(values);
        fp4_group_codes(values, e4m3_to_float(scales[group]), codes + first / 2);
        break;
      case RowFormat::fp4_e8m0:
        scales[group] = fp4_group_scale_e8m0(values);
        fp4_group_codes(values, e8m0_to_float(scales[group]), codes + first / 2);
        break;
      case RowFormat::fp8_f32: {
        const float scale = fp8_group_scale(values, layout.fp8_scale);
        std::memcpy(scales + group * sizeof(scale), &scale, sizeof(scale));
        fp8_group_codes(values, scale, codes + first);
        break;
      }
    }
  }
  if (layout.tail > 0) {
    std::memcpy(row + layout.code_bytes() + layout.scale_bytes(), x + layout.quantized(),
                static_cast<std::size_t>(layout.tail) * sizeof(bf16));
  }
}

float row_scale(RowLayout layout, const std::byte* row, int group) {
  const std::uint8_t* scales = as_codes(row) + layout.code_bytes();
  switch (layout.format) {
    case RowFormat::fp4_e4m3:
      return e4m3_to_float(scales[group]);
    case RowFormat::fp8_f32: {
      float scale;
      std::memcpy(&scale, scales + static_cast<std::size_t>(group) * sizeof(scale), sizeof(scale));
      return scale;
    }
    case RowFormat::fp8_e8m0:
    case RowFormat::fp8_e8m0_64:
    case RowFormat::fp4_e8m0:
      break;
  }
  return e8m0_to_float(scales[group]);
}

void unpack_codes(RowLayout layout, const std::byte* row, float* codes) {
  for (int i = 0; i < layout.quantized(); ++i) codes[i] = code_value(layout, as_codes(row), i);
}

void unpack_row(RowLayout layout, const std::byte* row, float* x) {
  for_each_value(layout, row, [x](int i, bf16 value) { x[i] = to_float(value); });
}

void unpack_row(RowLayout layout, const std::byte* row, bf16* x) {
  for_each_value(layout, row, [x](int i, bf16 value) { x[i] = value; });
}

}  // namespace skim

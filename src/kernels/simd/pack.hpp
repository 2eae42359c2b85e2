// Rows packed as cache rows: pack_row, several elements at a time.
#pragma once

#include <cstring>

#include "kernels/parallel.hpp"
#include "kernels/simd/input.hpp"

namespace skim::simd {

/// Code of the nearest e4m3 value of each lane: e4m3_from_float.
template <class V>
Ints<V> e4m3_codes(Floats<V> value) {
  constexpr std::int32_t kNan = 0x7F;
  const auto bits = std::bit_cast<Ints<V>>(value);
  const auto rounded = std::bit_cast<Ints<V>>(round_e4m3<V>(value)) & 0x7FFFFFFF;
  const auto size = std::bit_cast<Floats<V>>(rounded);
  const Ints<V> normal = (rounded >> 20) - (120 << 3);
  const Ints<V> subnormal = __builtin_convertvector(size * 512.0f, Ints<V>);  // exact: 0 to 7
  const Ints<V> code = size < spread<V>(0x1p-6f) ? subnormal : normal;
  return (value == value ? code : Ints<V>{} + kNan) | ((bits >> 24) & 0x80);
}

/// Code of the nearest e2m1 value of each lane: e2m1_from_float. A comparison that holds is -1.
template <class V>
Ints<V> e2m1_codes(Floats<V> value) {
  const auto bits = std::bit_cast<Ints<V>>(value);
  const auto size = std::bit_cast<Floats<V>>(bits & 0x7FFFFFFF);
  const Ints<V> steps = (size <= 0.25f) + (size < 0.75f) + (size <= 1.25f) + (size < 1.75f) + (size <= 2.5f) +
                        (size < 3.5f) + (size <= 5.0f);
  return (steps + 7) | ((bits >> 28) & 8);
}

/// codes[count] of a group, one byte each.
template <class V>
void store_e4m3(const bf16* x, int count, float scale, std::uint8_t* codes) {
  for (int i = 0; i < count; i += V::kLanes) {
    const auto value = std::bit_cast<Floats<V>>(load_bf16_bits<V>(x + i));
    const auto bytes = __builtin_convertvector(e4m3_codes<V>(value / scale), typename V::Bytes);
    std::memcpy(codes + i, &bytes, sizeof(bytes));
  }
}

/// packed[count / 2] of a group of 16 or 32, the even element in the low four bits.
template <class V>
void store_e2m1(const bf16* x, int count, float scale, std::uint8_t* packed) {
  std::uint8_t codes[32];
  for (int i = 0; i < count; i += V::kLanes) {
    const auto value = std::bit_cast<Floats<V>>(load_bf16_bits<V>(x + i));
    const auto bytes = __builtin_convertvector(e2m1_codes<V>(value / scale), typename V::Bytes);
    std::memcpy(codes + i, &bytes, sizeof(bytes));
  }
  for (int i = 0; i < count / 2; ++i) packed[i] = static_cast<std::uint8_t>(codes[2 * i] | (codes[2 * i + 1] << 4));
}

template <class V>
void pack_row(const RowLayout& layout, const bf16* x, std::byte* row) {
  auto* const codes = reinterpret_cast<std::uint8_t*>(row);
  std::uint8_t* const scales = codes + layout.code_bytes();
  const int size = row_group(layout.format);
  for (int first = 0, group = 0; first < layout.quantized(); first += size, ++group) {
    const int count = std::min(size, layout.quantized() - first);
    const float amax = largest_magnitude<V>(x + first, count);
    switch (layout.format) {
      case RowFormat::fp8_e8m0:
      case RowFormat::fp8_e8m0_64:
        scales[group] = e8m0_pow2ceil(fp8_scale(amax, Fp8Scale::float32));
        store_e4m3<V>(x + first, count, e8m0_to_float(scales[group]), codes + first);
        break;
      case RowFormat::fp4_e4m3:
        scales[group] = fp4_scale_e4m3(amax);
        store_e2m1<V>(x + first, count, e4m3_to_float(scales[group]), codes + first / 2);
        break;
      case RowFormat::fp4_e8m0:
        scales[group] = fp4_scale_e8m0(amax);
        store_e2m1<V>(x + first, count, e8m0_to_float(scales[group]), codes + first / 2);
        break;
      case RowFormat::fp8_f32: {
        const float scale = fp8_scale(amax, layout.fp8_scale);
        std::memcpy(scales + group * static_cast<int>(sizeof(scale)), &scale, sizeof(scale));
        store_e4m3<V>(x + first, count, scale, codes + first);
        break;
      }
    }
  }
  std::memcpy(row + layout.code_bytes() + layout.scale_bytes(), x + layout.quantized(),
              static_cast<std::size_t>(layout.tail) * sizeof(bf16));
}

template <class V>
void pack_rows(Context& context, RowLayout layout, View<const bf16, 2> x, PagedRows<std::byte> rows,
               std::int64_t first) {
  // A group of fp8_f32 may be cut short to anything.
  const bool whole = layout.quantized() % V::kLanes == 0;
  parallel_for(context, x.shape[0], 2 * layout.width, [&](std::int64_t i, int) {
    if (whole) {
      pack_row<V>(layout, x.row(i), rows.row(first + i));
    } else {
      skim::pack_row(layout, x.row(i), rows.row(first + i));
    }
  });
}

}  // namespace skim::simd

// Packed cache rows to floats: unpack_row, several elements at a time.
#pragma once

#include <algorithm>
#include <cstring>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "formats/packed_rows.hpp"
#include "kernels/simd/input.hpp"

namespace skim::simd {

/// e4m3 codes times `scale`; to: aligned to the vector. No finite scale may stand beside a NaN code.
template <class V>
void widen_e4m3(const std::uint8_t* codes, std::int64_t count, float scale, bool round, float* to) {
  const Floats<V> scales = spread<V>(scale) * 0x1p8f;
  const bool has_room = scale < 0x1p119f;  // for the 2^8; not if the scale is NaN
  std::int64_t i = 0;
  for (; has_room && i + V::kLanes <= count; i += V::kLanes) {
    const Floats<V> values = V::widen_e4m3(codes + i) * scales;
    store<V>(to + i, round ? round_bf16<V>(values) : values);
  }
  for (; i < count; ++i) {
    to[i] = e4m3_to_float(codes[i]) * scale;
    if (round) to[i] = skim::round_bf16(to[i]);
  }
}

/// Rows of e2m1 codes, one scale per `group` codes. scale(g): of group g.
template <class V, class Scale>
void widen_e2m1(const std::uint8_t* packed, int count, int group, Scale scale, float* to) {
  int i = 0;
  for (; i + 2 * V::kLanes <= count; i += 2 * V::kLanes) {
    Floats<V> values[2];
    V::widen_e2m1(packed + i / 2, values);
    store<V>(to + i, values[0] * scale(i / group));
    store<V>(to + i + V::kLanes, values[1] * scale((i + V::kLanes) / group));
  }
  for (; i < count; ++i) {
    const unsigned byte = packed[i / 2];
    to[i] = kE2m1Values[i % 2 == 0 ? byte & 15 : byte >> 4] * scale(i / group);
  }
}

/// The last elements of a row, which are bf16.
template <class V>
void widen_tail(const std::byte* from, int count, float* to) {
  int i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    Words<V> words;
    std::memcpy(&words, from + 2 * i, sizeof(words));
    const auto values = std::bit_cast<Floats<V>>(__builtin_convertvector(words, Ints<V>) << 16);
    std::memcpy(to + i, &values, sizeof(values));
  }
  bf16 value;
  for (; i < count; ++i) {
    std::memcpy(&value, from + i * static_cast<int>(sizeof(value)), sizeof(value));
    to[i] = to_float(value);
  }
}

/// row to `to` [layout.width], aligned to 64 bytes.
template <class V>
void widen_row(const RowLayout& layout, const std::byte* row, float* to) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(row);
  const std::uint8_t* scales = codes + layout.code_bytes();
  const int count = layout.quantized();
  switch (layout.format) {
    case RowFormat::fp8_e8m0:
    case RowFormat::fp8_e8m0_64:
      for (int group = 0; group < layout.groups(); ++group) {
        const int size = row_group(layout.format);
        widen_e4m3<V>(codes + size * group, size, e8m0_to_float(scales[group]), false, to + size * group);
      }
      break;
    case RowFormat::fp4_e4m3:
      widen_e2m1<V>(
          codes, count, 16, [&](int group) { return e4m3_to_float(scales[group]); }, to);
      break;
    case RowFormat::fp4_e8m0:
      widen_e2m1<V>(
          codes, count, 32, [&](int group) { return e8m0_to_float(scales[group]); }, to);
      break;
    case RowFormat::fp8_f32:
      for (int first = 0; first < count; first += 128) {
        float scale;
        std::memcpy(&scale, scales + first / 128 * static_cast<int>(sizeof(scale)), sizeof(scale));
        widen_e4m3<V>(codes + first, std::min(128, count - first), scale, layout.fp8_scale == Fp8Scale::float32,
                      to + first);
      }
      break;
  }
  widen_tail<V>(row + layout.code_bytes() + layout.scale_bytes(), layout.tail, to + count);
}

}  // namespace skim::simd

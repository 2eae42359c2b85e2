// Index scores of V4.1. Twice an e2m1 value is an integer of at most 12, so the dot of a group of 32 is exact in
// integers; scales are powers of two. Vectors run along the heads of a query, so keys are never transposed.
#pragma once

#include <algorithm>
#include <limits>

#include "formats/bf16.hpp"
#include "formats/e8m0.hpp"
#include "kernels/simd/index_keys.hpp"
#include "kernels/simd/product.hpp"
#include "kernels/simd/scratch.hpp"

namespace skim::simd {

/// Twice the values of e2m1, as signed integers and 12 larger, which are not negative.
inline constexpr std::int8_t kTwice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
inline constexpr std::int8_t kTwicePlus12[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/// Keys decoded at one time.
inline constexpr std::int64_t kKeys = 64;
inline constexpr std::int64_t kRoom = kKeys + 16;  ///< With what pads the last tile.
inline constexpr int kIndexGroup = 32;

template <class V>
struct Fp4IndexSpace {
  std::int64_t panels, width, groups;
  std::int8_t* heads;   // [panels, groups, kIndexGroup / 4, kPanel, 4]: twice the values
  std::int32_t* start;  // [panels, groups, kPanel]: -12 * sum over the group, because keys are bytes 12 too large
  float* head_scales;   // [panels, groups, kPanel]: a quarter of the scale
  float* weights;       // [panels, kPanel], 0 beyond the last head
  std::uint8_t* keys;   // [kRoom, width]: the values of a table of four-bit codes
  float* key_scales;    // [kRoom, groups]
  const std::byte** key_rows;  // [kKeys]
  std::int64_t bytes;

  Fp4IndexSpace(const IndexShape& shape, std::byte* memory)
      : panels((shape.heads + kPanel<V> - 1) / kPanel<V>), width(shape.layout.width), groups(shape.layout.groups()) {
    ScratchPieces pieces(memory);
    const std::int64_t padded_heads = panels * kPanel<V>;
    heads = pieces.take<std::int8_t>(padded_heads * width);
    start = pieces.take<std::int32_t>(padded_heads * groups);
    head_scales = pieces.take<float>(padded_heads * groups);
    weights = pieces.take<float>(padded_heads);
    keys = pieces.take<std::uint8_t>(kRoom * width);
    key_scales = pieces.take<float>(kRoom * groups);
    key_rows = pieces.take<const std::byte*>(kKeys);
    bytes = pieces.bytes();
  }
};

template <class V>
void pack_heads(const IndexShape& shape, const IndexQuery& query, const Fp4IndexSpace<V>& space) {
  const std::int64_t padded_heads = space.panels * kPanel<V>;
  std::fill_n(space.heads, padded_heads * space.width, std::int8_t{0});
  std::fill_n(space.start, padded_heads * space.groups, 0);
  std::fill_n(space.head_scales, padded_heads * space.groups, 0.0f);
  std::fill_n(space.weights, padded_heads, 0.0f);
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    space.weights[h] = skim::round_bf16(query.weights[h]);  // they are bf16 values; so are their NaNs from here on
    const auto* row = reinterpret_cast<const std::uint8_t*>(query.query + h * shape.layout.bytes());
    for (std::int64_t group = 0; group < space.groups; ++group) {
      const std::int64_t at = (h / kPanel<V> * space.groups + group) * kPanel<V> + h % kPanel<V>;
      std::int32_t sum = 0;
      for (int k = 0; k < kIndexGroup; ++k) {
        const std::int64_t element = group * kIndexGroup + k;
        const unsigned byte = row[element / 2];
        const std::int8_t twice = kTwice[k % 2 == 0 ? byte & 15 : byte >> 4];
        const std::int64_t step = (h / kPanel<V> * space.groups + group) * (kIndexGroup / 4) + k / 4;
        space.heads[(step * kPanel<V> + h % kPanel<V>)*4 + k % 4] = twice;
        sum += twice;
      }
      space.start[at] = -12 * sum;
      space.head_scales[at] = 0.25f * e8m0_to_float(row[shape.layout.code_bytes() + group]);
    }
  }
}

/// Keys of slots [first, first + count) as bytes of `table`, then zeros up to a multiple of `padding`.
template <class V>
void unpack_keys(const IndexShape& shape, const IndexQuery& query, std::int64_t first, std::int64_t count,
                 const std::int8_t (&table)[16], std::int64_t padding, const Fp4IndexSpace<V>& space) {
  list_keys(query, first, count, space.key_rows);
  for (std::int64_t i = 0; i < round_up(count, padding); ++i) {
    const auto* row = i < count ? reinterpret_cast<const std::uint8_t*>(space.key_rows[i]) : nullptr;
    std::uint8_t* const to = space.keys + i * space.width;
    for (std::int64_t group = 0; group < space.groups; ++group) {
      float& scale = space.key_scales[i * space.groups + group];
      if (row == nullptr) {
        std::fill_n(to + group * kIndexGroup, kIndexGroup, static_cast<std::uint8_t>(table[0]));
        scale = 0;
      } else {
        V::look_up_codes(row + group * kIndexGroup / 2, table, to + group * kIndexGroup);
        scale = e8m0_to_float(row[shape.layout.code_bytes() + group]);
      }
    }
  }
}

/// dots += those of V::kTileKeys keys from `key` on with the heads of one panel.
template <class V>
inline __attribute__((always_inline)) void dot_keys(const Fp4IndexSpace<V>& space, std::int64_t panel, std::int64_t key,
                                                    Floats<V> (&dots)[V::kTileKeys][2]) {
  for (std::int64_t group = 0; group < space.groups; ++group) {
    const std::int64_t at = panel * space.groups + group;
    Ints<V> start[2], sums[V::kTileKeys][2];
    Floats<V> scales[2];
    for (int half = 0; half < 2; ++half) {
      start[half] = *reinterpret_cast<const Ints<V>*>(space.start + at * kPanel<V> + half * V::kLanes);
      scales[half] = load<V>(space.head_scales + at * kPanel<V> + half * V::kLanes);
    }
    V::index_dots(space.keys + key * space.width + group * kIndexGroup, space.width,
                  space.heads + at * kIndexGroup * kPanel<V>, start, sums);
    for (int i = 0; i < V::kTileKeys; ++i) {
      const Floats<V> key_scale = spread<V>(space.key_scales[(key + i) * space.groups + group]);
      for (int half = 0; half < 2; ++half) {
        dots[i][half] = V::multiply_add(V::to_floats(sums[i][half]), scales[half] * key_scale, dots[i][half]);
      }
    }
  }
}

/// scores[i] = bf16(sum over heads of bf16(relu(bf16(dot)) * weight)) of unpacked keys [first, last), kTile at a time.
/// dot(panel, key, dots): dots of kTile keys from `key` on.
template <class V, int kTile, class Dot>
void combine_heads(const Fp4IndexSpace<V>& space, std::int64_t first, std::int64_t last, float* scores, Dot dot) {
  for (std::int64_t key = first; key < last; key += kTile) {
    Floats<V> totals[kTile] = {};
    for (std::int64_t panel = 0; panel < space.panels; ++panel) {
      Floats<V> dots[kTile][2] = {};
      dot(panel, key, dots);
      for (int i = 0; i < kTile; ++i) {
        for (int half = 0; half < 2; ++half) {
          const Floats<V> weight = load<V>(space.weights + panel * kPanel<V> + half * V::kLanes);
          const Floats<V> value = round_bf16_product<V>(dots[i][half]);
          totals[i] += round_bf16_product<V>(V::larger(spread<V>(0.0f), value) * weight);
        }
      }
    }
    for (int i = 0; i < kTile && key + i < last; ++i) {
      scores[key + i] = space.key_rows[key + i] != nullptr ? skim::round_bf16(V::sum(totals[i]))
                                                           : -std::numeric_limits<float>::infinity();
    }
  }
}

template <class V>
void score_fp4_keys(const IndexShape& shape, const IndexQuery& query, std::int64_t first, std::int64_t count,
                    const Fp4IndexSpace<V>& space, float* scores) {
  unpack_keys(shape, query, first, count, kTwicePlus12, V::kTileKeys, space);
  combine_heads<V, V::kTileKeys>(space, 0, count, scores, [&](std::int64_t panel, std::int64_t key, auto& dots) {
    dot_keys(space, panel, key, dots);
  });
}

}  // namespace skim::simd

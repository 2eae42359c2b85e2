// Index scores of V3.2: dots of e4m3 codes in float32, keys by panels of heads.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/simd/index_fp4.hpp"
#include "kernels/simd/rows.hpp"

namespace skim::simd {

template <class V>
struct Fp8IndexSpace {
  std::int64_t heads, depth;
  float* queries;              // [heads / kPanel, depth, kPanel]: codes
  float* weights;              // [heads], 0 beyond the last head
  float* keys;                 // [kKeys, depth]: codes
  float* dots;                 // [kKeys, heads]
  const std::byte** key_rows;  // [kKeys]
  std::int64_t bytes;

  Fp8IndexSpace(const IndexShape& shape, std::byte* memory)
      : heads(round_up(shape.heads, kPanel<V>)), depth(round_up(shape.layout.width, 16)) {
    ScratchPieces pieces(memory);
    queries = pieces.take<float>(heads * depth);
    weights = pieces.take<float>(heads);
    keys = pieces.take<float>(kKeys * depth);
    dots = pieces.take<float>(kKeys * heads);
    key_rows = pieces.take<const std::byte*>(kKeys);
    bytes = pieces.bytes();
  }
};

template <class V>
void pack_heads(const IndexShape& shape, const IndexQuery& query, const Fp8IndexSpace<V>& space) {
  std::fill_n(space.queries, space.heads * space.depth, 0.0f);
  std::fill_n(space.weights, space.heads, 0.0f);
  std::copy_n(query.weights, shape.heads, space.weights);
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(query.query + h * shape.layout.bytes());
    float* const to = space.queries + h / kPanel<V> * space.depth * kPanel<V> + h % kPanel<V>;
    for (std::int64_t k = 0; k < shape.layout.width; ++k) to[k * kPanel<V>] = e4m3_to_float(codes[k]);
  }
}

template <class V>
void unpack_keys(const IndexShape& shape, const IndexQuery& query, std::int64_t first, std::int64_t count,
                 const Fp8IndexSpace<V>& space) {
  list_keys(query, first, count, space.key_rows);
  for (std::int64_t i = 0; i < count; ++i) {
    float* const to = space.keys + i * space.depth;
    std::fill(to + shape.layout.width / 16 * 16, to + space.depth, 0.0f);
    if (space.key_rows[i] == nullptr) {
      std::fill_n(to, space.depth, 0.0f);
    } else {
      widen_e4m3<V>(reinterpret_cast<const std::uint8_t*>(space.key_rows[i]), shape.layout.width, 1.0f, false, to);
    }
  }
}

/// Scale of a packed key. An infinite one stands beside a NaN code, which is not found among the codes.
inline constexpr auto key_scale = [](const RowLayout& layout, const std::byte* row) {
  const float scale = row_scale(layout, row, 0);
  return std::isfinite(scale) ? scale : std::numeric_limits<float>::quiet_NaN();
};

/// scores[i] = key scale * sum over heads of relu(dot) * weight. Space: heads, weights, dots and key_rows as above.
template <class V, class Space>
void combine_heads(const IndexShape& shape, const Space& space, std::int64_t count, float* scores) {
  for (std::int64_t i = 0; i < count; ++i) {
    Floats<V> total{};
    for (std::int64_t h = 0; h < space.heads; h += V::kLanes) {
      const Floats<V> positive = V::larger(spread<V>(0.0f), load<V>(space.dots + i * space.heads + h));
      total = V::multiply_add(positive, load<V>(space.weights + h), total);
    }
    scores[i] = space.key_rows[i] != nullptr ? V::sum(total) * key_scale(shape.layout, space.key_rows[i])
                                             : -std::numeric_limits<float>::infinity();
  }
}

template <class V>
void score_fp8_keys(const IndexShape& shape, const IndexQuery& query, std::int64_t first, std::int64_t count,
                    const Fp8IndexSpace<V>& space, float* scores) {
  unpack_keys(shape, query, first, count, space);
  for (std::int64_t panel = 0; panel < space.heads / kPanel<V>; ++panel) {
    const FloatPanels<V> right{space.queries + panel * space.depth * kPanel<V>, kPanel<V>, 0};
    multiply_panel<V, Into::replace>({space.keys, space.depth, 1}, right, count, space.depth, nullptr,
                                     {space.dots + panel * kPanel<V>, space.heads, 0});
  }
  combine_heads<V>(shape, space, count, scores);
}

}  // namespace skim::simd

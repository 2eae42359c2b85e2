// The inner loop of linear layers, logits, values and V3.2 index scores: a tile of rows of x by two vectors of columns
// of w per panel. Every running sum is one chain of fused multiply-adds, k ascending: the same bits whatever the tile.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/simd/vector_math.hpp"

namespace skim::simd {

/// Columns of a panel: two vectors.
template <class V>
inline constexpr int kPanel = 2 * V::kLanes;

/// Element (i, k) of the left operand, one float that meets a whole panel, is data[i * row_stride + k * step].
struct LeftRows {
  const float* data;
  std::int64_t row_stride, step;
};

/// Rows k of float panels: row k of panel p is at data + p * panel_stride + k * row_stride, aligned.
template <class V>
struct FloatPanels {
  const float* data;
  std::int64_t row_stride, panel_stride;

  /// Row k of kPanels panels.
  template <int kPanels>
  void row(std::int64_t k, Floats<V> (&to)[2 * kPanels]) const {
    for (int v = 0; v < 2 * kPanels; ++v) {
      to[v] = load<V>(data + v / 2 * panel_stride + k * row_stride + v % 2 * V::kLanes);
    }
  }
};

/// sums(i, v) += left(i) * row(v), left(i) being left[i * row_stride].
template <class V, int kRows, int kVectors>
inline __attribute__((always_inline)) void add_row(const float* left, std::int64_t row_stride,
                                                   const Floats<V> (&row)[kVectors],
                                                   Floats<V> (&sums)[kRows][kVectors]) {
  for (int i = 0; i < kRows; ++i) {
    const Floats<V> value = spread<V>(left[i * row_stride]);
    for (int v = 0; v < kVectors; ++v) sums[i][v] = V::multiply_add(value, row[v], sums[i][v]);
  }
}

/// sums(i, v) += sum over k in [first, first + depth), of left(i, k) * right(k, v); depth is even. Codes come in pairs
/// of rows; floats are read a row at a time, because 12 sums and 4 vectors would leave AVX2 no register for the left
/// operand.
template <class V, int kRows, int kPanels, class Right>
inline __attribute__((always_inline)) void add_products(const LeftRows& left, const Right& right, std::int64_t first,
                                                        std::int64_t depth, Floats<V> (&sums)[kRows][2 * kPanels]) {
  const float* x = left.data + first * left.step;
  if constexpr (requires(Floats<V>(&row)[2 * kPanels]) { right.template row<kPanels>(first, row); }) {
    for (std::int64_t k = first; k < first + depth; ++k, x += left.step) {
      Floats<V> row[2 * kPanels];
      right.template row<kPanels>(k, row);
      add_row<V>(x, left.row_stride, row, sums);
    }
  } else {
    for (std::int64_t k = first; k < first + depth; k += 2, x += 2 * left.step) {
      Floats<V> even[2 * kPanels], odd[2 * kPanels];
      right.template pair<kPanels>(k, even, odd);
      add_row<V>(x, left.row_stride, even, sums);
      add_row<V>(x + left.step, left.row_stride, odd, sums);
    }
  }
}

/// Where the sums of a tile go: row i of panel p is at data + i * row_stride + p * panel_stride, aligned.
struct Sums {
  float* data;
  std::int64_t row_stride, panel_stride;

  template <class V>
  float* vector(int i, int v) const {
    return data + i * row_stride + v / 2 * panel_stride + v % 2 * V::kLanes;
  }
};

enum class Into {
  replace,  ///< out = products
  add,      ///< out = out + products
  rescale,  ///< The chain of products starts with out * factors[row].
};

/// One tile over [first, first + depth) of k. factors: [kRows], for Into::rescale only.
template <class V, Into kInto, int kRows, int kPanels, class Add>
inline __attribute__((always_inline)) void into_tile(const Sums& out, const float* factors, Add add) {
  Floats<V> sums[kRows][2 * kPanels] = {};
  if constexpr (kInto == Into::rescale) {
    for (int i = 0; i < kRows; ++i) {
      for (int v = 0; v < 2 * kPanels; ++v) sums[i][v] = load<V>(out.vector<V>(i, v)) * factors[i];
    }
  }
  add(sums);
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < 2 * kPanels; ++v) {
      if constexpr (kInto == Into::add) sums[i][v] = load<V>(out.vector<V>(i, v)) + sums[i][v];
      store<V>(out.vector<V>(i, v), sums[i][v]);
    }
  }
}

/// Calls tile(std::integral_constant<int, n>, first) for tiles of n <= kMost rows that make up `rows`: as few as
/// possible, as even as possible, so that none is left with too few independent sums.
template <int kMost, class Tile>
void for_row_tiles(std::int64_t rows, Tile tile) {
  const std::int64_t tiles = (rows + kMost - 1) / kMost;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t first = rows * t / tiles, count = rows * (t + 1) / tiles - first;
    [&]<int... kCounts>(std::integer_sequence<int, kCounts...>) {
      (void)((count == kCounts + 1 && (tile(std::integral_constant<int, kCounts + 1>(), first), true)) || ...);
    }
    (std::make_integer_sequence<int, kMost>());
  }
}

/// `rows` rows of left times `depth` rows of one panel of floats.
template <class V, Into kInto>
void multiply_panel(const LeftRows& left, const FloatPanels<V>& right, std::int64_t rows, std::int64_t depth,
                    const float* factors, const Sums& out) {
  for_row_tiles<V::kTileRows>(rows, [&]<int kRows>(std::integral_constant<int, kRows>, std::int64_t first) {
    const LeftRows tile{left.data + first * left.row_stride, left.row_stride, left.step};
    into_tile<V, kInto, kRows, 1>({out.data + first * out.row_stride, out.row_stride, out.panel_stride},
                                  factors + (kInto == Into::rescale ? first : 0),
                                  [&](auto& sums) { add_products<V, kRows, 1>(tile, right, 0, depth, sums); });
  });
}

}  // namespace skim::simd

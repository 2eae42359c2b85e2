// Dot products of all pairs of rows of two matrices, the inner loop of linear layers, logits and index scores. Both
// operands run along the sum, so neither is ever transposed, and one row needs the same sums as a thousand.
#include <array>
#include <utility>

#include "kernels/portable/vectors.hpp"

namespace skim::portable {
namespace {

// With 16 registers, as on x86-64: 4 x 3 running sums, 3 elements of b and one product; a comes from memory. Two
// additions of three cycles each at a time need 6 independent sums, so a single row takes 6 rows of b.
constexpr int kTileRows = 4, kTileColumns = 3, kLongTileColumns = 6;

template <int kRows, int kColumns>
void add_tile(const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride, std::int64_t depth,
              float* out, std::int64_t out_stride) {
  Floats sums[kRows][kColumns] = {};
  std::int64_t k = 0;
  do {
    Floats right[kColumns];
    for (int j = 0; j < kColumns; ++j) right[j] = load(b + j * b_stride + k);
    for (int i = 0; i < kRows; ++i) {
      const Floats left = load(a + i * a_stride + k);
      for (int j = 0; j < kColumns; ++j) sums[i][j] += left * right[j];
    }
    k += kLanes;
  } while (k < depth);
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) out[i * out_stride + j] += sum_lanes(sums[i][j]);
  }
}

using AddTile = void (*)(const float*, std::int64_t, const float*, std::int64_t, std::int64_t, float*, std::int64_t);

/// Entry j is the tile of j + 1 rows of b.
template <int kRows, int... kColumns>
constexpr std::array<AddTile, sizeof...(kColumns)> tiles_of(std::integer_sequence<int, kColumns...>) {
  return {add_tile<kRows, kColumns + 1>...};
}

constexpr auto kOneRow = tiles_of<1>(std::make_integer_sequence<int, kLongTileColumns>());
constexpr auto kTwoRows = tiles_of<2>(std::make_integer_sequence<int, kTileColumns>());
constexpr auto kThreeRows = tiles_of<3>(std::make_integer_sequence<int, kTileColumns>());
constexpr auto kFourRows = tiles_of<4>(std::make_integer_sequence<int, kTileColumns>());
static_assert(kTileRows == 4);

const AddTile* tiles_for(std::int64_t rows) {
  switch (rows) {
    case 1:
      return kOneRow.data();
    case 2:
      return kTwoRows.data();
    case 3:
      return kThreeRows.data();
    default:
      return kFourRows.data();
  }
}

}  // namespace

void add_dots(Rows a, Rows b, std::int64_t depth, float* out, std::int64_t out_stride) {
  const Tiles row_tiles(a.count, kTileRows);
  for (std::int64_t tile = 0; tile < row_tiles.tiles; ++tile) {
    const std::int64_t i = row_tiles.first(tile), rows = row_tiles.size(tile);
    const AddTile* add = tiles_for(rows);
    const Tiles column_tiles(b.count, rows == 1 ? kLongTileColumns : kTileColumns);
    for (std::int64_t column = 0; column < column_tiles.tiles; ++column) {
      const std::int64_t j = column_tiles.first(column);
      add[column_tiles.size(column) - 1](a.row(i), a.stride, b.row(j), b.stride, depth, out + i * out_stride + j,
                                         out_stride);
    }
  }
}

}  // namespace skim::portable

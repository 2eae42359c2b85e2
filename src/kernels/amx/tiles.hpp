// AMX tiles: 16 rows of 64 bytes. Tiles 0 to 3 hold running sums of a block of two row tiles by two column tiles, 4 and
// 5 the left operand, 6 and 7 the right one.
//
// By inline assembly, because the compiler's own functions do not say that they read memory.
#pragma once

#include <cstdint>

namespace skim::amx {
namespace {

inline constexpr int kTile = 16;  ///< Rows of a tile, and columns of 32 bits.
inline constexpr std::int64_t kTileBytes = 1024;
inline constexpr int kLeft = 4, kRight = 6;

template <int kIndex>
void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kIndex));
}
template <int kIndex>
void tile_load(const void* from, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kIndex) : "memory");
}
template <int kIndex>
void tile_store(void* to, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kIndex) : "memory");
}

/// sums += left * right. Left: 16 rows of 32 bf16; right: 16 pairs of k by 16 columns by two bf16.
struct Bf16Product {
  template <int kSums, int kA, int kB>
  static void add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
  }
};
/// Left: 16 rows of signed bytes; right: fours of k by 16 columns by four signed bytes. Sums are 32-bit integers.
struct Int8Product {
  template <int kSums, int kA, int kB>
  static void add() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kA), "i"(kB));
  }
};

/// The tiles of this thread while it lives, for blocks of `rows` <= 32 rows of the left operand with k_bytes per row
/// and step. The right operand has k_bytes / 4 rows.
class TileScope {
 public:
  explicit TileScope(std::int64_t rows, int k_bytes = 64) : k_bytes_(k_bytes) { configure(rows); }
  ~TileScope() { asm volatile("tilerelease" ::: "memory"); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

  /// For the next blocks. What the tiles held is lost if anything changes.
  void set_rows(std::int64_t rows) {
    if (rows != rows_) configure(rows);
  }

 private:
  /// Operand of ldtilecfg.
  struct alignas(64) Layout {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(Layout) == 64);

  void configure(std::int64_t rows) {
    rows_ = rows;
    const auto first = static_cast<std::uint8_t>(rows < kTile ? rows : kTile);
    const auto second = static_cast<std::uint8_t>(rows > kTile ? rows - kTile : first);  // unused if there is one tile
    Layout layout;
    for (int tile = 0; tile < 4; ++tile) set(layout, tile, tile < 2 ? first : second, 64);
    set(layout, kLeft, first, k_bytes_);
    set(layout, kLeft + 1, second, k_bytes_);
    set(layout, kRight, static_cast<std::uint8_t>(k_bytes_ / 4), 64);
    set(layout, kRight + 1, static_cast<std::uint8_t>(k_bytes_ / 4), 64);
    asm volatile("ldtilecfg %0" ::"m"(layout));
  }
  static void set(Layout& layout, int tile, std::uint8_t rows, int row_bytes) {
    layout.rows[tile] = rows;
    layout.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  }

  int k_bytes_;
  std::int64_t rows_ = 0;
};

/// Element rows of an operand: tile t of step s starts at data + t * tile_bytes + s * step_bytes.
struct Operand {
  const void* data;
  std::int64_t row_bytes, tile_bytes, step_bytes;

  const char* at(std::int64_t tile, std::int64_t step) const {
    return static_cast<const char*>(data) + tile * tile_bytes + step * step_bytes;
  }
};

/// Sums of tile (i, j): rows of 16 at data + i * row_tile + j * column_tile, `stride` bytes apart; offsets in bytes.
struct TileSums {
  void* data;
  std::int64_t stride, row_tile, column_tile;

  char* at(std::int64_t i, std::int64_t j) const { return static_cast<char*>(data) + i * row_tile + j * column_tile; }
};

/// out = left * right over `steps`, added to what out holds if `more`: kRows by kColumns tiles, each 1 or 2.
template <class Product, int kRows, int kColumns>
void multiply_block(const Operand& left, const Operand& right, std::int64_t steps, bool more, const TileSums& out) {
  if (more) {
    tile_load<0>(out.at(0, 0), out.stride);
    if constexpr (kColumns > 1) tile_load<1>(out.at(0, 1), out.stride);
    if constexpr (kRows > 1) tile_load<2>(out.at(1, 0), out.stride);
    if constexpr (kRows > 1 && kColumns > 1) tile_load<3>(out.at(1, 1), out.stride);
  } else {
    tile_zero<0>();
    if constexpr (kColumns > 1) tile_zero<1>();
    if constexpr (kRows > 1) tile_zero<2>();
    if constexpr (kRows > 1 && kColumns > 1) tile_zero<3>();
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    tile_load<kLeft>(left.at(0, step), left.row_bytes);
    tile_load<kRight>(right.at(0, step), right.row_bytes);
    Product::template add<0, kLeft, kRight>();
    if constexpr (kColumns > 1) {
      tile_load<kRight + 1>(right.at(1, step), right.row_bytes);
      Product::template add<1, kLeft, kRight + 1>();
    }
    if constexpr (kRows > 1) {
      tile_load<kLeft + 1>(left.at(1, step), left.row_bytes);
      Product::template add<2, kLeft + 1, kRight>();
      if constexpr (kColumns > 1) Product::template add<3, kLeft + 1, kRight + 1>();
    }
  }
  tile_store<0>(out.at(0, 0), out.stride);
  if constexpr (kColumns > 1) tile_store<1>(out.at(0, 1), out.stride);
  if constexpr (kRows > 1) tile_store<2>(out.at(1, 0), out.stride);
  if constexpr (kRows > 1 && kColumns > 1) tile_store<3>(out.at(1, 1), out.stride);
}

/// All blocks of row_tiles by column_tiles full tiles.
template <class Product>
void multiply_tiles(const Operand& left, const Operand& right, std::int64_t row_tiles, std::int64_t column_tiles,
                    std::int64_t steps, bool more, const TileSums& out) {
  for (std::int64_t i = 0; i < row_tiles; i += 2) {
    for (std::int64_t j = 0; j < column_tiles; j += 2) {
      const Operand a{left.at(i, 0), left.row_bytes, left.tile_bytes, left.step_bytes};
      const Operand b{right.at(j, 0), right.row_bytes, right.tile_bytes, right.step_bytes};
      const TileSums c{out.at(i, j), out.stride, out.row_tile, out.column_tile};
      const bool two_rows = i + 1 < row_tiles, two_columns = j + 1 < column_tiles;
      if (two_rows && two_columns) {
        multiply_block<Product, 2, 2>(a, b, steps, more, c);
      } else if (two_rows) {
        multiply_block<Product, 2, 1>(a, b, steps, more, c);
      } else if (two_columns) {
        multiply_block<Product, 1, 2>(a, b, steps, more, c);
      } else {
        multiply_block<Product, 1, 1>(a, b, steps, more, c);
      }
    }
  }
}

}  // namespace
}  // namespace skim::amx

#include "attention/window_rows.hpp"

namespace skim {
namespace {

void show_window(const LayerCall& call, const Tile& tile) {
  if (!call.traces("window_kv")) return;
  const Arena::Scope scope(call.arena());
  const RingLayout& ring = call.layout().ring(kWindow);
  const auto stored = call.arena().tensor<bf16, 2>({tile.rows, ring.row.width});
  for (const TilePiece& piece : tile.pieces) {
    const WindowRows window = call.window(piece, ring);
    for (std::int64_t i = 0; i < piece.rows; ++i) {
      unpack_row(ring.row, window.row(piece.position + i), stored.row(piece.first_row + i));
    }
  }
  call.show("window_kv", tile, stored);
}

}  // namespace

void append_window(const LayerCall& call, const Tile& tile, View<const bf16, 2> rows) {
  const RingLayout& ring = call.layout().ring(kWindow);
  for (const TilePiece& piece : tile.pieces) {
    std::byte* const packed = call.stage(piece, ring);
    call.kernels.pack_rows(call.context(), ring.row, rows.rows(piece.first_row, piece.rows),
                           {&packed, piece.rows, ring.row_bytes}, 0);
  }
  show_window(call, tile);
}

}  // namespace skim

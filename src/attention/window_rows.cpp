#include "attention/window_rows.hpp"

namespace skim {
namespace {

void show_window(const LayerCall& call, const Tile& tile) {
  if (!call.traces("window_kv")) return;
  const Arena::Scope scope(call.arena());
  const RowLayout layout = call.layout().window_row;
  const auto stored = call.arena().tensor<bf16, 2>({tile.rows, layout.width});
  for (const TilePiece& piece : tile.pieces) {
    const WindowRows window = piece.sequence->window(call.layout(), call.slot);
    for (std::int64_t i = 0; i < piece.rows; ++i) {
      unpack_row(layout, window.row(piece.position + i), stored.row(piece.first_row + i));
    }
  }
  call.show("window_kv", tile, stored);
}

}  // namespace

void append_window(const LayerCall& call, const Tile& tile, View<const bf16, 2> rows) {
  const RowLayout layout = call.layout().window_row;
  for (const TilePiece& piece : tile.pieces) {
    const StagedLayer& staged = piece.sequence->layers[call.slot];
    std::byte* const packed = staged.window.data();
    call.kernels.pack_rows(call.context(), layout, rows.rows(piece.first_row, piece.rows),
                           {&packed, staged.window_rows, layout.bytes()}, piece.position - staged.window_first);
  }
  show_window(call, tile);
}

}  // namespace skim

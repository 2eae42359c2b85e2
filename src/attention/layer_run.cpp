#include "attention/layer_run.hpp"

namespace skim {

void LayerRun::show(std::string_view name, const Tile& tile, View<const bf16, 2> rows) const {
  if (!traces(name)) return;
  for (const TilePiece& piece : tile.pieces) {
    trace->rows({layer, name, piece.sequence, piece.position, rows.rows(piece.first_row, piece.rows)});
  }
}

View<const float, 3> LayerRun::angles(std::span<const std::int64_t> positions) const {
  const auto cos_sin =
      arena().tensor<float, 3>({static_cast<std::int64_t>(positions.size()), rope.pairs(), std::int64_t{2}});
  rope.fill(positions, cos_sin);
  return cos_sin;
}

void LayerRun::rotate(View<bf16, 2> x, int width, View<const float, 3> cos_sin, bool inverse) const {
  const View<bf16, 3> heads(x.data, {x.shape[0], x.shape[1] / width, width}, {x.strides[0], width, 1});
  kernels.rotate(context(), {heads, cos_sin, inverse});
}

}  // namespace skim

#include "attention/layer_run.hpp"

namespace skim {

void LayerRun::show(std::string_view name, const Tile& tile, View<const bf16, 2> rows) const {
  if (!traces(name)) return;
  for (const TilePiece& piece : tile.pieces) {
    trace->rows({layer, name, piece.sequence, piece.position, rows.rows(piece.first_row, piece.rows), {}});
  }
}

void LayerRun::show(std::string_view name, const Tile& tile, View<const float, 2> rows) const {
  if (!traces(name)) return;
  for (const TilePiece& piece : tile.pieces) {
    trace->rows({layer, name, piece.sequence, piece.position, {}, rows.rows(piece.first_row, piece.rows)});
  }
}

void LayerRun::show_attention(const Tile& tile, View<bf16, 2> out, View<const float, 2> log_sum,
                              const float* sink) const {
  if (log_sum.data == nullptr) return;
  const std::int64_t heads = log_sum.shape[1], width = out.shape[1] / heads;
  for (const TilePiece& piece : tile.pieces) {
    const View<bf16, 3> rows(out.row(piece.first_row), {piece.rows, heads, width}, {out.strides[0], width, 1});
    trace->attention({layer,
                      piece.sequence,
                      piece.position,
                      rows,
                      log_sum.rows(piece.first_row, piece.rows),
                      {sink, sink != nullptr ? static_cast<std::size_t>(heads) : 0}});
  }
}

View<const float, 3> LayerRun::angles(std::span<const std::int64_t> positions) const {
  const auto cos_sin =
      arena().tensor<float, 3>({static_cast<std::int64_t>(positions.size()), rope.pairs(), std::int64_t{2}});
  rope.fill(positions, cos_sin);
  return cos_sin;
}

void LayerRun::rotate(View<bf16, 2> x, int width, View<const float, 3> cos_sin, RotationStyle style,
                      bool inverse) const {
  const View<bf16, 3> heads(x.data, {x.shape[0], x.shape[1] / width, width}, {x.strides[0], width, 1});
  kernels.rotate(context(), {heads, cos_sin, inverse, style});
}

View<bf16, 2> LayerRun::project(View<const bf16, 2> x, const Weight& weight) const {
  const auto y = arena().tensor<bf16, 2>({x.shape[0], weight.format.out});
  kernels.linear(context(), x, weight, y);
  return y;
}

View<bf16, 2> LayerRun::project(View<const bf16, 2> x, const NormedProjection& projection) const {
  const View<bf16, 2> raw = project(x, projection.weight);
  const auto y = arena().tensor<bf16, 2>(raw.shape);
  kernels.rms_norm(context(), raw, projection.norm.data(), norm_eps, y);
  return y;
}

Queries project_queries(const LayerRun& run, const Tile& tile, View<const bf16, 2> x, const NormedProjection& down,
                        const Weight& up, int head_width, View<const float, 3> angles) {
  const View<bf16, 2> low_rank = run.project(x, down);
  run.show("qr", tile, View<const bf16, 2>(low_rank));
  const View<bf16, 2> heads = run.project(low_rank, up);
  run.rotate(heads, head_width, angles);
  run.show("q_rope", tile, View<const bf16, 2>(heads));
  return {low_rank, heads};
}

}  // namespace skim

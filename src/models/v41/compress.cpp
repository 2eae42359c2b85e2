// Latents of closed groups, their index keys and compressed rows: docs/v41.md, step 3.
#include <cstring>

#include "attention/cache_rows.hpp"
#include "models/v41/layer.hpp"

namespace skim::v41 {
namespace {

/// Rows of (kv, score) that make up the groups of one sequence: those that waited, then the tile's.
struct GroupInput {
  View<float, 2> kv, score;  ///< [waiting + rows, head_dim]
};

void copy_row(View<const float, 2> from, std::int64_t row, float* to) {
  std::memcpy(to, from.row(row), static_cast<std::size_t>(from.shape[1]) * sizeof(float));
}

GroupInput gather(const Call& call, const TilePiece& piece, View<const float, 2> kv, View<const float, 2> score) {
  const std::int64_t width = call.config.head_dim;
  const std::int64_t waiting = piece.position % call.role.ratio;
  const RingLayout& ring = call.layout().ring(kOpen);
  GroupInput input{call.arena().tensor<float, 2>({waiting + piece.rows, width}),
                   call.arena().tensor<float, 2>({waiting + piece.rows, width})};
  for (std::int64_t i = 0; i < waiting; ++i) {
    const auto* row = reinterpret_cast<const float*>(call.ring_row(piece, ring, piece.position - waiting + i));
    copy_row({row, {1, width}}, 0, input.kv.row(i));
    copy_row({row + width, {1, width}}, 0, input.score.row(i));
  }
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    copy_row(kv, piece.first_row + i, input.kv.row(waiting + i));
    copy_row(score, piece.first_row + i, input.score.row(waiting + i));
  }
  return input;
}

/// Rows wait in the batch: for the next tile, and for wherever the accepted tokens end.
void keep_open(const Call& call, const TilePiece& piece, View<const float, 2> kv, View<const float, 2> score) {
  const std::int64_t width = call.config.head_dim;
  auto* row = reinterpret_cast<float*>(call.stage(piece, call.layout().ring(kOpen)));
  for (std::int64_t i = 0; i < piece.rows; ++i, row += 2 * width) {
    copy_row(kv, piece.first_row + i, row);
    copy_row(score, piece.first_row + i, row + width);
  }
}

/// Ratio > 1: pools x * wkv over each group with weights from x * wgate.
void pool(const Call& call, const Tile& tile, View<const bf16, 2> x, const std::vector<ClosedGroups>& closed,
          View<bf16, 2> latent) {
  const std::int64_t width = call.config.head_dim, ratio = call.role.ratio;
  const auto kv = call.arena().tensor<float, 2>({tile.rows, width});
  const auto score = call.arena().tensor<float, 2>({tile.rows, width});
  call.kernels.linear_f32(call.context(), x, call.weights.compressor->wkv, kv);
  call.kernels.linear_f32(call.context(), x, *call.weights.compressor->wgate, score);
  for (std::size_t i = 0; i < closed.size(); ++i) {
    const Arena::Scope scope(call.arena());
    const std::int64_t count = closed[i].count;
    const GroupInput input = gather(call, tile.pieces[i], kv, score);
    call.kernels.pool_groups(call.context(), View<const float, 3>(input.kv.data, {count, ratio, width}),
                             View<const float, 3>(input.score.data, {count, ratio, width}),
                             latent.rows(closed[i].first_row, count));
    keep_open(call, tile.pieces[i], kv, score);
  }
}

/// A group is rotated at the position of its first token.
View<const float, 3> group_angles(const Call& call, const std::vector<ClosedGroups>& closed) {
  std::vector<std::int64_t> positions;
  for (const ClosedGroups& groups : closed) {
    for (std::int64_t i = 0; i < groups.count; ++i) positions.push_back((groups.first_group + i) * call.role.ratio);
  }
  return call.angles(positions);
}

}  // namespace

void compress(const Call& call, const Tile& tile, View<const bf16, 2> x) {
  const Arena::Scope scope(call.arena());
  const CompressorWeights& weights = *call.weights.compressor;
  const std::vector<ClosedGroups> closed = closed_groups(call, tile);
  const std::int64_t rows = closed.back().first_row + closed.back().count;

  const auto pooled = call.arena().tensor<bf16, 2>({rows, call.config.head_dim});
  if (call.role.ratio > 1) {
    pool(call, tile, x, closed, pooled);
  } else {
    call.kernels.linear(call.context(), x, weights.wkv, pooled);
  }
  const auto latent = call.arena().tensor<bf16, 2>({rows, call.config.head_dim});
  call.kernels.rms_norm(call.context(), pooled, weights.norm.data(), call.norm_eps, latent);
  show_groups(call, "latent", closed, latent);

  const View<bf16, 2> key = call.project(latent, NormedProjection{weights.wk, weights.k_norm});
  const View<const float, 3> angles = group_angles(call, closed);
  call.rotate(key, call.config.index_head_dim, angles);
  append_rows(call, kKeys, closed, key);
  show_stored(call, "index_k_new", kKeys, closed);

  call.rotate(latent, call.config.head_dim, angles);
  append_rows(call, kRows, closed, latent);
  show_stored(call, "compress_kv_new", kRows, closed);
}

}  // namespace skim::v41

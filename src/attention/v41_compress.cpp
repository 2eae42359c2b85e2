// Latents of closed groups, their index keys and compressed rows: docs/v41.md, step 3.
#include <algorithm>
#include <cstring>

#include "attention/cache_rows.hpp"
#include "attention/v41_run.hpp"

namespace skim {
namespace {

/// Rows of (kv, score) that make up the groups of one sequence: those that waited, then the tile's.
struct GroupInput {
  View<float, 2> kv, score;  ///< [waiting + rows, head_dim]
};

void copy_row(View<const float, 2> from, std::int64_t row, float* to) {
  std::memcpy(to, from.row(row), static_cast<std::size_t>(from.shape[1]) * sizeof(float));
}

GroupInput gather(const V41Run& run, const TilePiece& piece, View<const float, 2> kv, View<const float, 2> score) {
  const std::int64_t width = run.config.head_dim;
  const std::int64_t waiting = piece.position % run.role.ratio;
  const BatchSequence& sequence = run.batch.sequences[static_cast<std::size_t>(piece.sequence)];
  GroupInput input{run.arena().tensor<float, 2>({waiting + piece.rows, width}),
                   run.arena().tensor<float, 2>({waiting + piece.rows, width})};
  for (std::int64_t i = 0; i < waiting; ++i) {
    const float* row = sequence.open_row(run.layout(), run.slot, piece.position - waiting + i);
    copy_row({row, {1, width}}, 0, input.kv.row(i));
    copy_row({row + width, {1, width}}, 0, input.score.row(i));
  }
  for (std::int64_t i = 0; i < piece.rows; ++i) {
    copy_row(kv, piece.first_row + i, input.kv.row(waiting + i));
    copy_row(score, piece.first_row + i, input.score.row(waiting + i));
  }
  return input;
}

/// The last rows wait in the batch: for the next tile, and for wherever the accepted tokens end.
void keep_open(const V41Run& run, const TilePiece& piece, View<const float, 2> kv, View<const float, 2> score) {
  const std::int64_t width = run.config.head_dim;
  const BatchSequence& sequence = run.batch.sequences[static_cast<std::size_t>(piece.sequence)];
  const std::int64_t first = std::max<std::int64_t>(0, piece.rows - sequence.layers[run.slot].open_rows);
  for (std::int64_t i = first; i < piece.rows; ++i) {
    float* row = sequence.open_row(run.layout(), run.slot, piece.position + i);
    copy_row(kv, piece.first_row + i, row);
    copy_row(score, piece.first_row + i, row + width);
  }
}

/// Ratio > 1: pools x * wkv over each group with weights from x * wgate.
void pool(const V41Run& run, const Tile& tile, View<const bf16, 2> x, const std::vector<ClosedGroups>& closed,
          View<bf16, 2> latent) {
  const std::int64_t width = run.config.head_dim, ratio = run.role.ratio;
  const auto kv = run.arena().tensor<float, 2>({tile.rows, width});
  const auto score = run.arena().tensor<float, 2>({tile.rows, width});
  run.kernels.linear_f32(run.context(), x, run.weights.compressor->wkv, kv);
  run.kernels.linear_f32(run.context(), x, *run.weights.compressor->wgate, score);
  for (std::size_t i = 0; i < closed.size(); ++i) {
    const Arena::Scope scope(run.arena());
    const std::int64_t count = closed[i].count;
    const GroupInput input = gather(run, tile.pieces[i], kv, score);
    run.kernels.pool_groups(run.context(), View<const float, 3>(input.kv.data, {count, ratio, width}),
                            View<const float, 3>(input.score.data, {count, ratio, width}),
                            latent.rows(closed[i].first_row, count));
    keep_open(run, tile.pieces[i], kv, score);
  }
}

/// Appends and shows what was stored.
void append(const V41Run& run, std::string_view name, PageTable LayerCache::*table, RowLayout layout,
            const std::vector<ClosedGroups>& closed, View<const bf16, 2> rows) {
  append_rows(run, table, layout, closed, rows);
  if (!run.traces(name)) return;
  const Arena::Scope scope(run.arena());
  show_groups(run, name, closed, stored_rows(run, table, layout, closed));
}

/// A group is rotated at the position of its first token.
View<const float, 3> group_angles(const V41Run& run, const std::vector<ClosedGroups>& closed) {
  std::vector<std::int64_t> positions;
  for (const ClosedGroups& groups : closed) {
    for (std::int64_t i = 0; i < groups.count; ++i) positions.push_back((groups.first_group + i) * run.role.ratio);
  }
  return run.angles(positions);
}

}  // namespace

void compress(const V41Run& run, const Tile& tile, View<const bf16, 2> x) {
  const Arena::Scope scope(run.arena());
  const CompressorWeights& weights = *run.weights.compressor;
  const std::vector<ClosedGroups> closed = closed_groups(run, tile);
  const std::int64_t rows = closed.back().first_row + closed.back().count;

  const auto pooled = run.arena().tensor<bf16, 2>({rows, run.config.head_dim});
  if (run.role.ratio > 1) {
    pool(run, tile, x, closed, pooled);
  } else {
    run.kernels.linear(run.context(), x, weights.wkv, pooled);
  }
  const auto latent = run.arena().tensor<bf16, 2>({rows, run.config.head_dim});
  run.kernels.rms_norm(run.context(), pooled, weights.norm.data(), run.norm_eps, latent);
  show_groups(run, "latent", closed, latent);

  const View<bf16, 2> key = run.project(latent, NormedProjection{weights.wk, weights.k_norm});
  const View<const float, 3> angles = group_angles(run, closed);
  run.rotate(key, run.config.index_head_dim, angles);
  append(run, "index_k_new", &LayerCache::keys, run.layout().key_row, closed, key);

  run.rotate(latent, run.config.head_dim, angles);
  append(run, "compress_kv_new", &LayerCache::compressed, run.layout().compressed_row, closed, latent);
}

}  // namespace skim

// The order of operations of a V4.1 layer: docs/v41.md.
#include <algorithm>
#include <cmath>

#include "attention/layer_run.hpp"

namespace skim {
namespace {

/// Step 1. Returns qr [rows, q_lora_rank] and the rotated queries [rows, n_heads * head_dim].
struct Queries {
  View<bf16, 2> qr, q;
};

Queries project_queries(const LayerRun& run, const Tile& tile, View<const bf16, 2> x, View<const float, 3> angles) {
  const V41Config& c = run.config;
  const auto low_rank = run.arena().tensor<bf16, 2>({tile.rows, c.q_lora_rank});
  const Queries queries{run.arena().tensor<bf16, 2>({tile.rows, c.q_lora_rank}),
                        run.arena().tensor<bf16, 2>({tile.rows, std::int64_t{c.n_heads} * c.head_dim})};
  run.kernels.linear(run.context(), x, run.weights.wq_a, low_rank);
  run.kernels.rms_norm(run.context(), low_rank, run.weights.q_norm.data(), static_cast<float>(c.norm_eps), queries.qr);
  run.show("qr", tile, queries.qr);
  run.kernels.linear(run.context(), queries.qr, run.weights.wq_b, queries.q);
  run.rotate(queries.q, c.head_dim, angles, false);
  run.show("q_rope", tile, queries.q);
  return queries;
}

void show_window(const LayerRun& run, const Tile& tile) {
  if (!run.traces("window_kv")) return;
  const Arena::Scope scope(run.arena());
  const RowLayout layout = run.layout().window_row;
  const auto stored = run.arena().tensor<bf16, 2>({tile.rows, layout.width});
  for (const TilePiece& piece : tile.pieces) {
    const WindowRows window =
        run.batch.sequences[static_cast<std::size_t>(piece.sequence)].window(run.layout(), run.slot);
    for (std::int64_t i = 0; i < piece.rows; ++i) {
      unpack_row(layout, window.row(piece.position + i), stored.row(piece.first_row + i));
    }
  }
  run.show("window_kv", tile, stored);
}

/// Step 2: the window rows of the tile, packed behind those staged before.
void append_window(const LayerRun& run, const Tile& tile, View<const bf16, 2> x, View<const float, 3> angles) {
  const Arena::Scope scope(run.arena());
  const V41Config& c = run.config;
  const auto raw = run.arena().tensor<bf16, 2>({tile.rows, c.head_dim});
  const auto kv = run.arena().tensor<bf16, 2>({tile.rows, c.head_dim});
  run.kernels.linear(run.context(), x, run.weights.wkv, raw);
  run.kernels.rms_norm(run.context(), raw, run.weights.kv_norm.data(), static_cast<float>(c.norm_eps), kv);
  run.rotate(kv, c.head_dim, angles, false);
  const RowLayout layout = run.layout().window_row;
  for (const TilePiece& piece : tile.pieces) {
    const StagedLayer& staged = run.batch.sequences[static_cast<std::size_t>(piece.sequence)].layers[run.slot];
    std::byte* const rows = staged.window.data();
    run.kernels.pack_rows(run.context(), layout, kv.rows(piece.first_row, piece.rows),
                          {&rows, staged.window_rows, layout.bytes()}, piece.position - staged.window_first);
  }
  show_window(run, tile);
}

/// Step 7. o: [rows, n_heads * head_dim]
void attend(const LayerRun& run, const Tile& tile, View<const bf16, 2> q, View<bf16, 2> o) {
  const V41Config& c = run.config;
  AttendShape shape{.heads = c.n_heads,
                    .key_width = c.head_dim,
                    .value_width = c.head_dim,
                    .scale = static_cast<float>(std::pow(c.head_dim, -0.5)),
                    .sink = run.weights.sink.data(),
                    .window_layout = run.layout().window_row,
                    .selected_layout = {}};
  if (run.role.ratio > 0) shape.selected_layout = run.source_layout().compressed_row;

  std::vector<AttendQuery> queries;
  for (const TilePiece& piece : tile.pieces) {
    const WindowRows window =
        run.batch.sequences[static_cast<std::size_t>(piece.sequence)].window(run.layout(), run.slot);
    for (std::int64_t row = piece.first_row; row < piece.first_row + piece.rows; ++row) {
      const std::int64_t position = tile.positions[static_cast<std::size_t>(row)];
      const std::int64_t count = std::min<std::int64_t>(position + 1, c.window_size);
      AttendQuery query{.query = q.row(row),
                        .window = window,
                        .window_first = position + 1 - count,
                        .window_count = count,
                        .selected_rows = {},
                        .selected = {},
                        .out = o.row(row)};
      if (run.role.ratio > 0) {
        const LayerCache& source = run.source_cache(piece.sequence);
        query.selected_rows = source.compressed.rows();
        query.selected = run.batch.selections.at(run.role.index_source).list(tile.first_token + row);
      }
      queries.push_back(query);
    }
  }
  run.kernels.attend(run.context(), shape, queries);
  run.show("o", tile, o);
}

/// Step 8. o: [rows, n_heads * head_dim], rotated back in place.
void project_output(const LayerRun& run, const Tile& tile, View<bf16, 2> o, View<const float, 3> angles,
                    View<bf16, 2> out) {
  const V41Config& c = run.config;
  run.rotate(o, c.head_dim, angles, true);
  const std::int64_t group_width = o.shape[1] / c.o_groups;
  const auto o_lora = run.arena().tensor<bf16, 2>({tile.rows, std::int64_t{c.o_groups} * c.o_lora_rank});
  for (int group = 0; group < c.o_groups; ++group) {
    const View<const bf16, 2> heads(o.data + group * group_width, {tile.rows, group_width}, o.strides);
    const View<bf16, 2> part(o_lora.data + std::int64_t{group} * c.o_lora_rank, {tile.rows, c.o_lora_rank},
                             o_lora.strides);
    run.kernels.linear(run.context(), heads, run.weights.wo_a[static_cast<std::size_t>(group)], part);
  }
  run.show("o_lora", tile, o_lora);
  run.kernels.linear(run.context(), o_lora, run.weights.wo_b, out);
  run.show("out", tile, out);
}

void run_tile(const LayerRun& run, const Tile& tile, View<const bf16, 2> x, View<bf16, 2> out) {
  const Arena::Scope scope(run.arena());
  const View<const float, 3> angles = run.angles(tile.positions);
  const Queries queries = project_queries(run, tile, x, angles);
  append_window(run, tile, x, angles);
  if (run.role.role == Role::full) compress(run, tile, x);
  if (run.weights.indexer) select(run, tile, x, queries.qr);
  const auto o = run.arena().tensor<bf16, 2>({tile.rows, queries.q.shape[1]});
  attend(run, tile, queries.q, o);
  project_output(run, tile, o, angles, out);
}

/// Tokens per tile, so that its activations fit half the workspace; scores may use the other half. More than 256 rows
/// do not make any kernel faster.
std::int64_t tile_rows(const LayerRun& run) {
  const V41Config& c = run.config;
  const std::int64_t query = std::int64_t{c.n_heads} * c.head_dim;
  const std::int64_t index_query = run.weights.indexer ? std::int64_t{c.index_n_heads} * c.index_head_dim : 0;
  const std::int64_t widest = std::max({c.dim, query, index_query, std::int64_t{c.o_groups} * c.o_lora_rank});
  const std::int64_t row_bytes = 4 * query + 4 * index_query + 16 * widest;
  return std::clamp<std::int64_t>(run.batch.cache->options.workspace_bytes / 2 / row_bytes, 1, 256);
}

/// Compressed positions that the last query of the longest sequence sees.
std::int64_t most_visible(const LayerRun& run) {
  std::int64_t most = 0;
  for (const BatchSequence& entry : run.batch.sequences) {
    most = std::max(most, (entry.start + entry.tokens) / run.role.ratio);
  }
  return most;
}

}  // namespace

void run_v41_layer(const LayerRun& run, View<const bf16, 2> x, View<bf16, 2> out) {
  run.batch.stage(run.slot);
  if (run.weights.indexer) {
    const std::int64_t visible = most_visible(run);
    run.batch.selections[run.layer] =
        Publication(run.batch.tokens, std::min<std::int64_t>(run.config.index_topk, visible));
    if (run.role.is_candidate_source) {
      const std::int64_t blocks = visible / run.config.candidate_block_size + 1;
      run.batch.candidates[run.layer] =
          Publication(run.batch.tokens, std::min<std::int64_t>(run.config.candidate_topk_blocks, blocks));
    }
  }
  const std::int64_t step = tile_rows(run);
  for (std::int64_t first = 0; first < run.batch.tokens; first += step) {
    const std::int64_t count = std::min(step, run.batch.tokens - first);
    run_tile(run, make_tile(run.batch, first, count), x.rows(first, count), out.rows(first, count));
    if (run.trace != nullptr) run.trace->progress(run.layer, first + count, run.batch.tokens);
  }
  run.batch.trim(run.slot);
}

}  // namespace skim

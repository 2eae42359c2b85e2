// The order of operations of a V4.1 layer: docs/v41.md.
#include <algorithm>
#include <cmath>

#include "attention/select.hpp"
#include "attention/v41_run.hpp"
#include "formats/bf16.hpp"

namespace skim {
namespace {

void show_window(const V41Run& run, const Tile& tile) {
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
  run.show("window_kv", tile, View<const bf16, 2>(stored));
}

/// Step 2: the window rows of the tile, packed behind those staged before.
void append_window(const V41Run& run, const Tile& tile, View<const bf16, 2> x, View<const float, 3> angles) {
  const Arena::Scope scope(run.arena());
  const View<bf16, 2> kv = run.project(x, NormedProjection{run.weights.wkv, run.weights.kv_norm});
  run.rotate(kv, run.config.head_dim, angles);
  const RowLayout layout = run.layout().window_row;
  for (const TilePiece& piece : tile.pieces) {
    const StagedLayer& staged = run.batch.sequences[static_cast<std::size_t>(piece.sequence)].layers[run.slot];
    std::byte* const rows = staged.window.data();
    run.kernels.pack_rows(run.context(), layout, kv.rows(piece.first_row, piece.rows),
                          {&rows, staged.window_rows, layout.bytes()}, piece.position - staged.window_first);
  }
  show_window(run, tile);
}

void show_index_queries(const V41Run& run, const Tile& tile, const IndexInput& input) {
  if (!run.traces("index_q")) return;
  const Arena::Scope scope(run.arena());
  const std::int64_t width = input.shape.layout.width;
  const auto rows = run.arena().tensor<bf16, 2>({tile.rows, input.shape.heads * width});
  for (std::int64_t i = 0; i < tile.rows * input.shape.heads; ++i) {
    unpack_row(input.shape.layout, input.queries + i * input.shape.layout.bytes(), rows.data + i * width);
  }
  run.show("index_q", tile, View<const bf16, 2>(rows));
}

/// Step 7. o: [rows, n_heads * head_dim]
void attend(const V41Run& run, const Tile& tile, View<const bf16, 2> q, View<bf16, 2> o) {
  const V41Config& c = run.config;
  AttendShape shape{.heads = c.n_heads,
                    .key_width = c.head_dim,
                    .value_width = c.head_dim,
                    .scale = static_cast<float>(std::pow(c.head_dim, -0.5)),
                    .sink = run.weights.sink.data(),
                    .window_layout = run.layout().window_row,
                    .selected_layout = {},
                    .rounding = AttendRounding::exponentials};
  if (run.role.ratio > 0) shape.selected_layout = run.source_layout().compressed_row;

  View<float, 2> log_sum;
  if (run.traces("attention")) log_sum = run.arena().tensor<float, 2>({tile.rows, c.n_heads});
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
                        .out = o.row(row),
                        .log_sum = log_sum.data != nullptr ? log_sum.row(row) : nullptr};
      if (run.role.ratio > 0) {
        const LayerCache& source = run.source_cache(piece.sequence);
        query.selected_rows = source.compressed.rows();
        query.selected = run.batch.selections.at(run.role.index_source).list(tile.first_token + row);
      }
      queries.push_back(query);
    }
  }
  run.kernels.attend(run.context(), shape, queries);
  run.show_attention(tile, o, log_sum, run.weights.sink.data());
  run.show("o", tile, View<const bf16, 2>(o));
}

/// Step 8. o: [rows, n_heads * head_dim], rotated back in place.
void project_output(const V41Run& run, const Tile& tile, View<bf16, 2> o, View<const float, 3> angles,
                    View<bf16, 2> out) {
  const V41Config& c = run.config;
  run.rotate(o, c.head_dim, angles, RotationStyle::tail_adjacent, true);
  const std::int64_t group_width = o.shape[1] / c.o_groups;
  const auto o_lora = run.arena().tensor<bf16, 2>({tile.rows, std::int64_t{c.o_groups} * c.o_lora_rank});
  run.kernels.linear_groups(run.context(), {o.data, {tile.rows, c.o_groups, group_width}}, run.weights.wo_a,
                            {o_lora.data, {tile.rows, c.o_groups, c.o_lora_rank}});
  run.show("o_lora", tile, View<const bf16, 2>(o_lora));
  run.kernels.linear(run.context(), o_lora, run.weights.wo_b, out);
  run.show("out", tile, View<const bf16, 2>(out));
}

/// Steps 4 to 6. x: [rows, dim]; qr: [rows, q_lora_rank].
void select_positions(const V41Run& run, const Tile& tile, View<const bf16, 2> x, View<const bf16, 2> qr,
                      View<const float, 3> angles, const SelectionLimits& limits) {
  const Arena::Scope scope(run.arena());
  const int heads = run.config.index_n_heads, width = run.config.index_head_dim;
  const View<bf16, 2> queries = run.project(qr, run.weights.indexer->wq_b);
  run.rotate(queries, width, angles);
  IndexInput input = pack_queries(run, {heads, {RowFormat::fp4_e8m0, width}}, queries);
  show_index_queries(run, tile, input);

  // The published code multiplies the bf16 projection by the scale in bf16.
  const auto scale = static_cast<float>(std::pow(width, -0.5) * std::pow(heads, -0.5));
  const View<bf16, 2> weights = run.project(x, run.weights.indexer->weights_proj);
  input.weights = run.arena().tensor<float, 2>({tile.rows, heads});
  for (std::int64_t i = 0; i < tile.rows * heads; ++i) {
    weights.data[i] = to_bf16(to_float(weights.data[i]) * scale);
    input.weights.data[i] = to_float(weights.data[i]);
  }
  run.show("index_weights", tile, View<const bf16, 2>(weights));
  select(run, tile, input, limits);
}

void run_tile(const V41Run& run, const Tile& tile, const SelectionLimits& limits, View<const bf16, 2> x,
              View<bf16, 2> out) {
  const View<const float, 3> angles = run.angles(tile.positions);
  const Queries queries = project_queries(run, tile, x, {run.weights.wq_a, run.weights.q_norm}, run.weights.wq_b,
                                          run.config.head_dim, angles);
  append_window(run, tile, x, angles);
  if (run.role.role == Role::full) compress(run, tile, x);
  if (run.weights.indexer) select_positions(run, tile, x, queries.low_rank, angles, limits);
  const auto o = run.arena().tensor<bf16, 2>(queries.heads.shape);
  attend(run, tile, queries.heads, o);
  project_output(run, tile, o, angles, out);
}

/// Activations per token.
std::int64_t row_bytes(const V41Run& run) {
  const V41Config& c = run.config;
  const std::int64_t query = std::int64_t{c.n_heads} * c.head_dim;
  const std::int64_t index_query = run.weights.indexer ? std::int64_t{c.index_n_heads} * c.index_head_dim : 0;
  const std::int64_t widest = std::max({c.dim, query, index_query, std::int64_t{c.o_groups} * c.o_lora_rank});
  return 4 * query + 4 * index_query + 16 * widest;
}

}  // namespace

void run_layer(const V41Run& run, View<const bf16, 2> x, View<bf16, 2> out) {
  const SelectionLimits limits{run.config.index_topk, run.config.candidate_topk_blocks,
                               run.config.candidate_block_size};
  if (run.weights.indexer) prepare_selection(run, limits);
  run_tiles(run, row_bytes(run), x, out, [&](const Tile& tile, View<const bf16, 2> x_rows, View<bf16, 2> out_rows) {
    run_tile(run, tile, limits, x_rows, out_rows);
  });
}

}  // namespace skim

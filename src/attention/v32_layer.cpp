// The order of operations of a V3.2 layer, absorbed for one token as for many: docs/v32.md.
#include <algorithm>
#include <cmath>

#include "attention/cache_rows.hpp"
#include "attention/select.hpp"
#include "attention/v32_run.hpp"

namespace skim {
namespace {

int head_width(const V32Config& c) { return c.qk_nope_head_dim + c.qk_rope_head_dim; }
int latent_row_width(const V32Config& c) { return c.kv_lora_rank + c.qk_rope_head_dim; }

/// Columns [first, first + count) of a matrix.
template <class T>
View<T, 2> columns(View<T, 2> matrix, std::int64_t first, std::int64_t count) {
  return {matrix.data + first, {matrix.shape[0], count}, matrix.strides};
}

/// The first `count` columns of each head of `width` columns: [rows, heads, count].
template <class T>
View<T, 3> by_head(View<T, 2> matrix, std::int64_t width, std::int64_t count) {
  return {matrix.data, {matrix.shape[0], matrix.shape[1] / width, count}, {matrix.strides[0], width, 1}};
}

void copy(View<const bf16, 2> from, View<bf16, 2> to) {
  for (std::int64_t i = 0; i < from.shape[0]; ++i) std::copy_n(from.row(i), from.shape[1], to.row(i));
}

/// Step 2: the latent and the rotated key of each token, in one row.
void append_latents(const V32Run& run, const Tile& tile, View<const bf16, 2> x, View<const float, 3> angles) {
  const Arena::Scope scope(run.arena());
  const V32Config& c = run.config;
  const View<const bf16, 2> raw = run.project(x, run.weights.wkv_a);
  const auto rows = run.arena().tensor<bf16, 2>(raw.shape);
  run.kernels.rms_norm(run.context(), columns(raw, 0, c.kv_lora_rank), run.weights.kv_norm.data(), run.norm_eps,
                       columns(rows, 0, c.kv_lora_rank));
  copy(columns(raw, c.kv_lora_rank, c.qk_rope_head_dim), columns(rows, c.kv_lora_rank, c.qk_rope_head_dim));
  run.rotate(rows, latent_row_width(c), angles);
  const std::vector<ClosedGroups> closed = closed_groups(run, tile);
  append_rows(run, &LayerCache::compressed, run.layout().compressed_row, closed, rows);
  if (!run.traces("kv_new") && !run.traces("k_pe_new")) return;
  const View<const bf16, 2> stored = stored_rows(run, &LayerCache::compressed, run.layout().compressed_row, closed);
  show_groups(run, "kv_new", closed, columns(stored, 0, c.kv_lora_rank));
  show_groups(run, "k_pe_new", closed, columns(stored, c.kv_lora_rank, c.qk_rope_head_dim));
}

/// Step 5, the query's side: per head (q_nope through wkv_b[:nope], rotated part), [rows, n_heads * latent_row_width].
View<bf16, 2> absorb_queries(const V32Run& run, View<const bf16, 2> q) {
  const V32Config& c = run.config;
  const std::int64_t width = latent_row_width(c);
  const auto absorbed = run.arena().tensor<bf16, 2>({q.shape[0], c.n_heads * width});
  run.kernels.linear_groups(run.context(), by_head(q, head_width(c), c.qk_nope_head_dim), run.weights.wk_b,
                            by_head(absorbed, width, c.kv_lora_rank));
  for (std::int64_t head = 0; head < c.n_heads; ++head) {
    copy(columns(q, head * head_width(c) + c.qk_nope_head_dim, c.qk_rope_head_dim),
         columns(absorbed, head * width + c.kv_lora_rank, c.qk_rope_head_dim));
  }
  return absorbed;
}

/// Step 5. Returns the average latent of each head, [rows, n_heads * kv_lora_rank]. log_sum: [rows, n_heads], or empty.
View<bf16, 2> attend(const V32Run& run, const Tile& tile, View<const bf16, 2> absorbed, View<float, 2> log_sum) {
  const V32Config& c = run.config;
  const AttendShape shape{.heads = c.n_heads,
                          .key_width = latent_row_width(c),
                          .value_width = c.kv_lora_rank,
                          .scale = static_cast<float>(softmax_scale(c, run.yarn)),
                          .sink = nullptr,
                          .window_layout = {},
                          .selected_layout = run.layout().compressed_row,
                          .rounding = AttendRounding::logits};
  const auto averages = run.arena().tensor<bf16, 2>({tile.rows, std::int64_t{c.n_heads} * c.kv_lora_rank});
  const Publication& selections = run.batch.selections.at(run.layer);
  std::vector<AttendQuery> queries;
  for (const TilePiece& piece : tile.pieces) {
    const PageTable& latents = run.source_cache(piece.sequence).compressed;
    for (std::int64_t row = piece.first_row; row < piece.first_row + piece.rows; ++row) {
      queries.push_back({.query = absorbed.row(row),
                         .window = {},
                         .selected_rows = latents.rows(),
                         .selected = selections.list(tile.first_token + row),
                         .out = averages.row(row),
                         .log_sum = log_sum.data != nullptr ? log_sum.row(row) : nullptr});
    }
  }
  run.kernels.attend(run.context(), shape, queries);
  return averages;
}

/// Values from average latents, and the output projection.
void project_output(const V32Run& run, const Tile& tile, View<const bf16, 2> averages, View<const float, 2> log_sum,
                    View<bf16, 2> out) {
  const V32Config& c = run.config;
  const auto o = run.arena().tensor<bf16, 2>({tile.rows, std::int64_t{c.n_heads} * c.v_head_dim});
  run.kernels.linear_groups(run.context(), by_head(averages, c.kv_lora_rank, c.kv_lora_rank), run.weights.wv_b,
                            by_head(o, c.v_head_dim, c.v_head_dim));
  run.show_attention(tile, o, log_sum, nullptr);
  run.show("o", tile, View<const bf16, 2>(o));
  run.kernels.linear(run.context(), o, run.weights.wo, out);
  run.show("out", tile, View<const bf16, 2>(out));
}

void run_tile(const V32Run& run, const Tile& tile, View<const bf16, 2> x, View<bf16, 2> out) {
  const View<const float, 3> angles = run.angles(tile.positions);
  const Queries queries = project_queries(run, tile, x, {run.weights.wq_a, run.weights.q_norm}, run.weights.wq_b,
                                          head_width(run.config), angles);
  append_latents(run, tile, x, angles);
  select_positions(run, tile, x, queries.low_rank, angles);
  View<float, 2> log_sum;
  if (run.traces("attention")) log_sum = run.arena().tensor<float, 2>({tile.rows, run.config.n_heads});
  const View<bf16, 2> averages = attend(run, tile, absorb_queries(run, queries.heads), log_sum);
  project_output(run, tile, averages, log_sum, out);
}

/// Activations per token.
std::int64_t row_bytes(const V32Config& c) {
  const std::int64_t heads = c.n_heads;
  const std::int64_t query = heads * head_width(c), absorbed = heads * latent_row_width(c);
  const std::int64_t average = heads * c.kv_lora_rank, value = heads * c.v_head_dim;
  const std::int64_t index_query = std::int64_t{c.index_n_heads} * c.index_head_dim;
  const std::int64_t widest = std::max({c.dim, query, index_query, value});
  return 2 * (query + absorbed + average + value) + 4 * index_query + 16 * widest;
}

}  // namespace

double softmax_scale(const V32Config& config, bool yarn) {
  const double scale = std::pow(head_width(config), -0.5);
  if (!yarn) return scale;
  const double mscale = 0.1 * config.mscale * std::log(config.rope_factor) + 1.0;
  return scale * mscale * mscale;
}

void run_layer(const V32Run& run, View<const bf16, 2> x, View<bf16, 2> out) {
  prepare_selection(run, {.topk = run.config.index_topk});
  run_tiles(run, row_bytes(run.config), x, out,
            [&](const Tile& tile, View<const bf16, 2> x_rows, View<bf16, 2> out_rows) {
              run_tile(run, tile, x_rows, out_rows);
            });
}

}  // namespace skim

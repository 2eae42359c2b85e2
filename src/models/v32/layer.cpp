// The order of operations of a V3.2 layer, absorbed for one token as for many: docs/v32.md.
#include "models/v32/layer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/arena_bytes.hpp"
#include "attention/attend_rows.hpp"
#include "attention/cache_rows.hpp"
#include "attention/select.hpp"
#include "models/v32/v32.hpp"

namespace skim::v32 {
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
void append_latents(const Call& call, const Tile& tile, View<const bf16, 2> x, View<const float, 3> angles) {
  const Arena::Scope scope(call.arena());
  const V32Config& c = call.config;
  const View<const bf16, 2> raw = call.project(x, call.weights.wkv_a);
  const auto rows = call.arena().tensor<bf16, 2>(raw.shape);
  call.kernels.rms_norm(call.context(), columns(raw, 0, c.kv_lora_rank), call.weights.kv_norm.data(), call.norm_eps,
                        columns(rows, 0, c.kv_lora_rank));
  copy(columns(raw, c.kv_lora_rank, c.qk_rope_head_dim), columns(rows, c.kv_lora_rank, c.qk_rope_head_dim));
  call.rotate(rows, latent_row_width(c), angles);
  const std::vector<ClosedGroups> closed = closed_groups(call, tile);
  append_rows(call, kRows, closed, rows);
  if (!call.traces("kv_new") && !call.traces("k_pe_new")) return;
  const View<const bf16, 2> stored = stored_rows(call, kRows, closed);
  show_groups(call, "kv_new", closed, columns(stored, 0, c.kv_lora_rank));
  show_groups(call, "k_pe_new", closed, columns(stored, c.kv_lora_rank, c.qk_rope_head_dim));
}

/// Step 5, the query's side: per head (q_nope through wkv_b[:nope], rotated part), [rows, n_heads * latent_row_width].
View<bf16, 2> absorb_queries(const Call& call, View<const bf16, 2> q) {
  const V32Config& c = call.config;
  const std::int64_t width = latent_row_width(c);
  const auto absorbed = call.arena().tensor<bf16, 2>({q.shape[0], c.n_heads * width});
  call.kernels.linear_groups(call.context(), by_head(q, head_width(c), c.qk_nope_head_dim), call.weights.wk_b,
                             by_head(absorbed, width, c.kv_lora_rank));
  for (std::int64_t head = 0; head < c.n_heads; ++head) {
    copy(columns(q, head * head_width(c) + c.qk_nope_head_dim, c.qk_rope_head_dim),
         columns(absorbed, head * width + c.kv_lora_rank, c.qk_rope_head_dim));
  }
  return absorbed;
}

/// Step 5. averages: [rows, n_heads * kv_lora_rank], the average latent of each head. Returns what attend_rows does.
View<const float, 2> attend(const Call& call, const Tile& tile, View<const bf16, 2> absorbed, View<bf16, 2> averages) {
  const V32Config& c = call.config;
  return attend_rows(call, tile,
                     {.heads = c.n_heads,
                      .key_width = latent_row_width(c),
                      .value_width = c.kv_lora_rank,
                      .scale = static_cast<float>(softmax_scale(c, call.yarn)),
                      .sink = nullptr,
                      .window_layout = {},
                      .selected_layout = {},
                      .rounding = AttendRounding::logits},
                     absorbed, averages);
}

/// Values from average latents, and the output projection.
void project_output(const Call& call, const Tile& tile, View<const bf16, 2> averages, View<const float, 2> log_sum,
                    View<bf16, 2> out) {
  const V32Config& c = call.config;
  const auto o = call.arena().tensor<bf16, 2>({tile.rows, std::int64_t{c.n_heads} * c.v_head_dim});
  call.kernels.linear_groups(call.context(), by_head(averages, c.kv_lora_rank, c.kv_lora_rank), call.weights.wv_b,
                             by_head(o, c.v_head_dim, c.v_head_dim));
  show_attention(call, tile, o, log_sum, nullptr);
  call.show("o", tile, o);
  call.kernels.linear(call.context(), o, call.weights.wo, out);
  call.show("out", tile, out);
}

void run_tile(const Call& call, const Tile& tile, View<const bf16, 2> x, View<bf16, 2> out) {
  const View<const float, 3> angles = call.angles(tile.positions);
  const Queries queries = project_queries(call, tile, x, {call.weights.wq_a, call.weights.q_norm}, call.weights.wq_b,
                                          head_width(call.config), angles);
  append_latents(call, tile, x, angles);
  select_positions(call, tile, x, queries.low_rank, angles);
  const View<bf16, 2> absorbed = absorb_queries(call, queries.heads);
  const auto averages =
      call.arena().tensor<bf16, 2>({tile.rows, std::int64_t{call.config.n_heads} * call.config.kv_lora_rank});
  const View<const float, 2> log_sum = attend(call, tile, absorbed, averages);
  project_output(call, tile, averages, log_sum, out);
}

}  // namespace

std::int64_t arena_bytes(const Config& config, const LayerRole&) {
  const V32Config& c = config_of(config);
  const std::int64_t heads = c.n_heads, index_heads = c.index_n_heads;
  const std::int64_t query = heads * head_width(c), value = heads * c.v_head_dim;
  ArenaBytes bytes;
  bytes.floats(c.qk_rope_head_dim);
  bytes.project_normed(c.dim, c.q_lora_rank);
  bytes.project(c.q_lora_rank, query);
  const std::int64_t latents = bytes.begin();
  bytes.project_normed(c.dim, latent_row_width(c));
  bytes.end(latents);
  const std::int64_t selection = bytes.begin();
  bytes.project_normed(c.dim, c.index_head_dim);
  bytes.project(c.q_lora_rank, index_heads * c.index_head_dim);
  bytes.take(index_heads * RowLayout{RowFormat::fp8_f32, c.index_head_dim}.bytes());
  bytes.floats(index_heads);
  bytes.linear(c.dim);
  bytes.end(selection);
  bytes.rows(heads * latent_row_width(c));
  bytes.linear(c.qk_nope_head_dim, heads);
  bytes.rows(heads * c.kv_lora_rank);
  bytes.floats(heads);
  bytes.rows(value);
  bytes.linear(c.kv_lora_rank, heads);
  bytes.linear(value);
  return bytes.most();
}

double softmax_scale(const V32Config& config, bool yarn) {
  const double scale = std::pow(head_width(config), -0.5);
  if (!yarn) return scale;
  const double mscale = 0.1 * config.mscale * std::log(config.rope_factor) + 1.0;
  return scale * mscale * mscale;
}

namespace {

class Layer final : public LoadedLayer {
 public:
  Layer(const Config& config, const LayerRole& role, Weights weights)
      : config_(config_of(config)), weights_(std::move(weights)), token_bytes_(arena_bytes(config, role)) {}

  std::int64_t weight_bytes() const override { return weights_.bytes(); }

  void run(const LayerCall& layer, View<const bf16, 2> x, View<bf16, 2> out) const override {
    const Call call{layer, config_, weights_};
    prepare_selection(call, {.topk = config_.index_topk});
    run_tiles(call, token_bytes_, x, out, [&](const Tile& tile, View<const bf16, 2> x_rows, View<bf16, 2> out_rows) {
      run_tile(call, tile, x_rows, out_rows);
    });
  }

 private:
  V32Config config_;
  Weights weights_;
  std::int64_t token_bytes_;
};

}  // namespace

std::unique_ptr<const LoadedLayer> load(const LayerLoader& load, const Config& config, const LayerRole& role) {
  return std::make_unique<Layer>(config, role, load_weights(load, config_of(config)));
}

}  // namespace skim::v32

// The order of operations of a V4.1 layer: docs/v41.md.
#include "models/v41/layer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/arena_bytes.hpp"
#include "attention/attend_rows.hpp"
#include "attention/select.hpp"
#include "attention/window_rows.hpp"
#include "formats/bf16.hpp"
#include "models/v41/v41.hpp"

namespace skim::v41 {
namespace {

SelectionLimits selection_limits(const V41Config& c) {
  return {c.index_topk, c.candidate_topk_blocks, c.candidate_block_size};
}

/// Step 2.
void append_window_rows(const Call& call, const Tile& tile, View<const bf16, 2> x, View<const float, 3> angles) {
  const Arena::Scope scope(call.arena());
  const View<bf16, 2> kv = call.project(x, NormedProjection{call.weights.wkv, call.weights.kv_norm});
  call.rotate(kv, call.config.head_dim, angles);
  append_window(call, tile, kv);
}

void show_index_queries(const Call& call, const Tile& tile, const IndexInput& input) {
  if (!call.traces("index_q")) return;
  const Arena::Scope scope(call.arena());
  const std::int64_t width = input.shape.layout.width;
  const auto rows = call.arena().tensor<bf16, 2>({tile.rows, input.shape.heads * width});
  for (std::int64_t i = 0; i < tile.rows * input.shape.heads; ++i) {
    unpack_row(input.shape.layout, input.queries + i * input.shape.layout.bytes(), rows.data + i * width);
  }
  call.show("index_q", tile, rows);
}

/// Steps 4 to 6. x: [rows, dim]; qr: [rows, q_lora_rank].
void select_positions(const Call& call, const Tile& tile, View<const bf16, 2> x, View<const bf16, 2> qr,
                      View<const float, 3> angles) {
  const Arena::Scope scope(call.arena());
  const int heads = call.config.index_n_heads, width = call.config.index_head_dim;
  const View<bf16, 2> queries = call.project(qr, call.weights.indexer->wq_b);
  call.rotate(queries, width, angles);
  IndexInput input = pack_queries(call, {heads, {RowFormat::fp4_e8m0, width}}, queries);
  show_index_queries(call, tile, input);

  // The published code multiplies the bf16 projection by the scale in bf16.
  const auto scale = static_cast<float>(std::pow(width, -0.5) * std::pow(heads, -0.5));
  const View<bf16, 2> weights = call.project(x, call.weights.indexer->weights_proj);
  input.weights = call.arena().tensor<float, 2>({tile.rows, heads});
  for (std::int64_t i = 0; i < tile.rows * heads; ++i) {
    weights.data[i] = to_bf16(to_float(weights.data[i]) * scale);
    input.weights.data[i] = to_float(weights.data[i]);
  }
  call.show("index_weights", tile, weights);
  select(call, tile, input, selection_limits(call.config));
}

/// Step 7. o: [rows, n_heads * head_dim]
void attend(const Call& call, const Tile& tile, View<const bf16, 2> q, View<bf16, 2> o) {
  const V41Config& c = call.config;
  const View<const float, 2> log_sum = attend_rows(call, tile,
                                                   {.heads = c.n_heads,
                                                    .key_width = c.head_dim,
                                                    .value_width = c.head_dim,
                                                    .scale = static_cast<float>(std::pow(c.head_dim, -0.5)),
                                                    .sink = call.weights.sink.data(),
                                                    .window_layout = {},
                                                    .selected_layout = {},
                                                    .rounding = AttendRounding::exponentials},
                                                   q, o);
  show_attention(call, tile, o, log_sum, call.weights.sink.data());
  call.show("o", tile, o);
}

/// Step 8. o: [rows, n_heads * head_dim], rotated back in place.
void project_output(const Call& call, const Tile& tile, View<bf16, 2> o, View<const float, 3> angles,
                    View<bf16, 2> out) {
  const V41Config& c = call.config;
  call.rotate_back(o, c.head_dim, angles);
  const std::int64_t group_width = o.shape[1] / c.o_groups;
  const auto o_lora = call.arena().tensor<bf16, 2>({tile.rows, std::int64_t{c.o_groups} * c.o_lora_rank});
  call.kernels.linear_groups(call.context(), {o.data, {tile.rows, c.o_groups, group_width}}, call.weights.wo_a,
                             {o_lora.data, {tile.rows, c.o_groups, c.o_lora_rank}});
  call.show("o_lora", tile, o_lora);
  call.kernels.linear(call.context(), o_lora, call.weights.wo_b, out);
  call.show("out", tile, out);
}

void run_tile(const Call& call, const Tile& tile, View<const bf16, 2> x, View<bf16, 2> out) {
  const View<const float, 3> angles = call.angles(tile.positions);
  const Queries queries = project_queries(call, tile, x, {call.weights.wq_a, call.weights.q_norm}, call.weights.wq_b,
                                          call.config.head_dim, angles);
  append_window_rows(call, tile, x, angles);
  if (call.role.owns_rows()) compress(call, tile, x);
  if (call.role.selects()) select_positions(call, tile, x, queries.low_rank, angles);
  const auto o = call.arena().tensor<bf16, 2>(queries.heads.shape);
  attend(call, tile, queries.heads, o);
  project_output(call, tile, o, angles, out);
}

/// Arena bytes per token of `compress`, at ratio 1: the floats of larger groups are those of fewer rows.
void count_compress(const V41Config& c, bool pools, ArenaBytes& bytes) {
  const std::int64_t begun = bytes.begin();
  bytes.rows(c.head_dim);
  if (pools) {
    const std::int64_t pooling = bytes.begin();
    for (int i = 0; i < 4; ++i) bytes.floats(c.head_dim);  // kv and score, and both as rows of groups
    bytes.linear(c.dim);
    bytes.end(pooling);
  }
  bytes.linear(c.dim);
  bytes.rows(c.head_dim);
  bytes.project_normed(c.head_dim, c.index_head_dim);
  bytes.floats(c.rope_head_dim);
  bytes.end(begun);
}

/// The same of `select_positions`, without scores.
void count_selection(const V41Config& c, ArenaBytes& bytes) {
  const std::int64_t begun = bytes.begin(), heads = c.index_n_heads;
  bytes.project(c.q_lora_rank, heads * c.index_head_dim);
  bytes.take(heads * RowLayout{RowFormat::fp4_e8m0, c.index_head_dim}.bytes());
  bytes.project(c.dim, heads);
  bytes.floats(heads);
  bytes.end(begun);
}

}  // namespace

std::int64_t arena_bytes(const Config& config, const LayerRole& role) {
  const V41Config& c = config_of(config);
  const std::int64_t query = std::int64_t{c.n_heads} * c.head_dim;
  const std::int64_t o_lora = std::int64_t{c.o_groups} * c.o_lora_rank;
  ArenaBytes bytes;
  bytes.floats(c.rope_head_dim);
  bytes.project_normed(c.dim, c.q_lora_rank);
  bytes.project(c.q_lora_rank, query);
  const std::int64_t window = bytes.begin();
  bytes.project_normed(c.dim, c.head_dim);
  bytes.end(window);
  if (role.owns_rows()) count_compress(c, role.ratio > 1, bytes);
  if (role.selects()) count_selection(c, bytes);
  bytes.rows(query);
  bytes.floats(c.n_heads);
  bytes.rows(o_lora);
  bytes.linear(query / c.o_groups, c.o_groups);
  bytes.linear(o_lora);
  return bytes.most();
}

namespace {

class Layer final : public LoadedLayer {
 public:
  Layer(const Config& config, const LayerRole& role, Weights weights)
      : config_(config_of(config)), weights_(std::move(weights)), token_bytes_(arena_bytes(config, role)) {}

  std::int64_t weight_bytes() const override { return weights_.bytes(); }

  void run(const LayerCall& layer, View<const bf16, 2> x, View<bf16, 2> out) const override {
    const Call call{layer, config_, weights_};
    if (call.role.selects()) prepare_selection(call, selection_limits(config_));
    run_tiles(call, token_bytes_, x, out, [&](const Tile& tile, View<const bf16, 2> x_rows, View<bf16, 2> out_rows) {
      run_tile(call, tile, x_rows, out_rows);
    });
  }

 private:
  V41Config config_;
  Weights weights_;
  std::int64_t token_bytes_;
};

}  // namespace

std::unique_ptr<const LoadedLayer> load(const LayerLoader& load, const Config& config, const LayerRole& role) {
  return std::make_unique<Layer>(config, role, load_weights(load, config_of(config), role));
}

}  // namespace skim::v41

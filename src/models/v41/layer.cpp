// The order of operations of a V4.1 layer: docs/v41.md.
#include "models/v41/layer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/arena_bytes.hpp"
#include "attention/attend_rows.hpp"
#include "attention/grouped_output.hpp"
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

/// Steps 4 to 6. x: [rows, dim]; qr: [rows, q_lora_rank].
void select_positions(const Call& call, const Tile& tile, View<const bf16, 2> x, View<const bf16, 2> qr,
                      View<const float, 3> angles) {
  const Arena::Scope scope(call.arena());
  const int heads = call.config.index_n_heads, width = call.config.index_head_dim;
  const View<bf16, 2> queries = call.project(qr, call.weights.indexer->wq_b);
  call.rotate(queries, width, angles);
  IndexInput input = pack_queries(call, {heads, {RowFormat::fp4_e8m0, width}}, queries);
  show_index_queries(call, tile, input);
  input.weights = scaled_head_weights(call, tile, x, call.weights.indexer->weights_proj, width);
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

void run_tile(const Call& call, const Tile& tile, View<const bf16, 2> x, View<bf16, 2> out) {
  const View<const float, 3> angles = call.angles(tile.positions);
  const Queries queries = project_queries(call, tile, x, {call.weights.wq_a, call.weights.q_norm}, call.weights.wq_b,
                                          call.config.head_dim, angles);
  append_window_rows(call, tile, x, angles);
  if (call.role.owns_rows()) compress(call, tile, x);
  if (call.role.selects()) select_positions(call, tile, x, queries.low_rank, angles);
  const auto o = call.arena().tensor<bf16, 2>(queries.heads.shape);
  attend(call, tile, queries.heads, o);
  call.rotate_back(o, call.config.head_dim, angles);
  project_grouped_output(call, tile, o, call.weights.wo_a, call.weights.wo_b, out);
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

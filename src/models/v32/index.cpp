// The lightning indexer: docs/v32.md, step 3.
#include <cmath>

#include "attention/cache_rows.hpp"
#include "attention/select.hpp"
#include "formats/bf16.hpp"
#include "models/v32/layer.hpp"

namespace skim::v32 {
namespace {

/// Index vectors [rows, heads * width]: rotation of the front, then the Hadamard transform of each.
void transform(const Call& call, View<bf16, 2> vectors, View<const float, 3> angles) {
  const std::int64_t width = call.config.index_head_dim;
  call.rotate(vectors, call.config.index_head_dim, angles, RotationStyle::front_halves);
  call.kernels.hadamard(call.context(),
                        View<bf16, 2>(vectors.data, {vectors.shape[0] * vectors.shape[1] / width, width}));
}

/// What the codes of packed rows stand for, [rows, width].
View<bf16, 2> code_values(const Call& call, RowLayout layout, const std::vector<const std::byte*>& packed) {
  const auto values = call.arena().tensor<bf16, 2>({static_cast<std::int64_t>(packed.size()), layout.width});
  std::vector<float> codes(static_cast<std::size_t>(layout.width));
  for (std::size_t i = 0; i < packed.size(); ++i) {
    unpack_codes(layout, packed[i], codes.data());
    bf16* row = values.row(static_cast<std::int64_t>(i));
    for (const float code : codes) *row++ = to_bf16(code);
  }
  return values;
}

View<float, 2> scales(const Call& call, RowLayout layout, const std::vector<const std::byte*>& packed) {
  const auto values = call.arena().tensor<float, 2>({static_cast<std::int64_t>(packed.size()), std::int64_t{1}});
  for (std::size_t i = 0; i < packed.size(); ++i) values.data[i] = row_scale(layout, packed[i], 0);
  return values;
}

void append_keys(const Call& call, const Tile& tile, View<const bf16, 2> x, View<const float, 3> angles) {
  constexpr float kEps = 1e-6f;  // of the published LayerNorm, whatever the model's norm_eps
  const View<const bf16, 2> raw = call.project(x, call.weights.index_wk);
  const auto keys = call.arena().tensor<bf16, 2>(raw.shape);
  call.kernels.layer_norm(call.context(), raw, call.weights.index_k_norm.data(), call.weights.index_k_bias.data(), kEps,
                          keys);
  transform(call, keys, angles);
  const RowLayout layout = call.layout().table(kKeys).row;
  const std::vector<ClosedGroups> closed = closed_groups(call, tile);
  append_rows(call, kKeys, closed, keys);
  if (!call.traces("index_k_new") && !call.traces("index_k_scale_new")) return;
  const std::vector<const std::byte*> packed = packed_rows(call, kKeys, closed);
  call.show("index_k_new", tile, code_values(call, layout, packed));
  call.show("index_k_scale_new", tile, scales(call, layout, packed));
}

std::vector<const std::byte*> query_rows(const IndexInput& input, std::int64_t rows) {
  std::vector<const std::byte*> packed;
  for (std::int64_t i = 0; i < rows * input.shape.heads; ++i) {
    packed.push_back(input.queries + i * input.shape.layout.bytes());
  }
  return packed;
}

/// x * weights_proj * heads^-1/2 * query scale * width^-1/2, multiplied in this order in float32.
View<float, 2> head_weights(const Call& call, const IndexInput& input, View<const bf16, 2> x) {
  const auto heads_scale = static_cast<float>(std::pow(input.shape.heads, -0.5));
  const auto width_scale = static_cast<float>(std::pow(input.shape.layout.width, -0.5));
  const auto weights = call.arena().tensor<float, 2>({x.shape[0], input.shape.heads});
  call.kernels.linear_f32(call.context(), x, call.weights.index_weights, weights);
  const std::vector<const std::byte*> packed = query_rows(input, x.shape[0]);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    weights.data[i] = weights.data[i] * heads_scale * row_scale(input.shape.layout, packed[i], 0) * width_scale;
  }
  return weights;
}

}  // namespace

void select_positions(const Call& call, const Tile& tile, View<const bf16, 2> x, View<const bf16, 2> qr,
                      View<const float, 3> angles) {
  const Arena::Scope scope(call.arena());
  append_keys(call, tile, x, angles);
  const View<bf16, 2> queries = call.project(qr, call.weights.index_wq_b);
  transform(call, queries, angles);
  IndexInput input = pack_queries(call, {call.config.index_n_heads, call.layout().table(kKeys).row}, queries);
  if (call.traces("index_q")) {
    const View<const bf16, 2> codes = code_values(call, input.shape.layout, query_rows(input, tile.rows));
    call.show("index_q", tile, View<const bf16, 2>(codes.data, queries.shape));
  }
  input.weights = head_weights(call, input, x);
  call.show("index_weights", tile, input.weights);
  select(call, tile, input, {.topk = call.config.index_topk});
}

}  // namespace skim::v32

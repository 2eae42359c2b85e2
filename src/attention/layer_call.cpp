#include "attention/layer_call.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "skim/error.hpp"

namespace skim {
namespace {

/// x [rows, heads * width] as [rows, heads, width].
View<bf16, 3> heads_of(View<bf16, 2> x, std::int64_t width) {
  return {x.data, {x.shape[0], x.shape[1] / width, width}, {x.strides[0], width, 1}};
}

}  // namespace

View<const float, 3> LayerCall::angles(std::span<const std::int64_t> positions) const {
  const auto cos_sin = arena().tensor<float, 3>({std::ssize(positions), rope.pairs(), 2});
  rope.fill(positions, cos_sin);
  return cos_sin;
}

void LayerCall::rotate(View<bf16, 2> x, std::int64_t width, View<const float, 3> angles, RotationStyle style) const {
  kernels.rotate(context(), {heads_of(x, width), angles, false, style});
}

void LayerCall::rotate_back(View<bf16, 2> x, std::int64_t width, View<const float, 3> angles) const {
  kernels.rotate(context(), {heads_of(x, width), angles, true, RotationStyle::tail_adjacent});
}

View<bf16, 2> LayerCall::project(View<const bf16, 2> x, const Weight& weight) const {
  const auto y = arena().tensor<bf16, 2>({x.shape[0], weight.format.out});
  kernels.linear(context(), x, weight, y);
  return y;
}

View<bf16, 2> LayerCall::project(View<const bf16, 2> x, const NormedProjection& projection) const {
  const View<bf16, 2> raw = project(x, projection.weight);
  const auto y = arena().tensor<bf16, 2>(raw.shape);
  kernels.rms_norm(context(), raw, projection.norm.data(), norm_eps, y);
  return y;
}

Queries project_queries(const LayerCall& call, const Tile& tile, View<const bf16, 2> x, const NormedProjection& down,
                        const Weight& up, std::int64_t head_width, View<const float, 3> angles) {
  const View<bf16, 2> low_rank = call.project(x, down);
  call.show("qr", tile, low_rank);
  const View<bf16, 2> heads = call.project(low_rank, up);
  call.rotate(heads, head_width, angles);
  call.show("q_rope", tile, heads);
  return {low_rank, heads};
}

void run_tiles(const LayerCall& call, std::int64_t row_bytes, View<const bf16, 2> x, View<bf16, 2> out,
               const RunTile& run_tile) {
  Batch::Impl& batch = call.batch;
  const std::int64_t fitting = batch.cache->options.workspace_bytes / 2 / row_bytes;
  const std::int64_t step = std::clamp<std::int64_t>(fitting, 1, kMostTileRows);
  batch.staging.restart(call.layout());
  for (std::int64_t first = 0; first < batch.tokens; first += step) {
    const std::int64_t count = std::min(step, batch.tokens - first);
    const Arena::Scope scope(call.arena());
    run_tile(make_tile(batch, first, count), x.rows(first, count), out.rows(first, count));
    if (call.trace == nullptr) continue;
    call.trace->progress(call.layer, first + count, batch.tokens);
    if (call.trace->cancelled()) throw Error(ErrorCode::cancelled, fmt::format("layer {}: cancelled", call.layer));
  }
}

}  // namespace skim

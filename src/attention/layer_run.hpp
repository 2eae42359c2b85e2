// One call of Model::forward: what all steps of a layer share, whatever the model.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "attention/rope.hpp"
#include "attention/tile.hpp"
#include "cache/batch_impl.hpp"
#include "kernels/kernels.hpp"
#include "skim/config.hpp"
#include "skim/error.hpp"
#include "skim/trace.hpp"

namespace skim {

/// A projection with a norm behind it: rmsnorm(x W^T).
struct NormedProjection {
  const Weight& weight;
  const std::vector<float>& norm;
};

struct LayerRun {
  int layer;
  const LayerRole& role;
  const RopeTable& rope;
  const Kernels& kernels;
  Batch::Impl& batch;
  std::size_t slot;     ///< Of the layer in the cache layout.
  bool yarn;            ///< The cache is for long contexts: CacheLayout::yarn.
  Trace* trace;         ///< May be null.
  bool watches_scores;  ///< The trace wants index_score; asked once, since the workspace depends on it.
  float norm_eps;

  Context& context() const { return *batch.context; }
  Arena& arena() const { return batch.context->arena(); }
  const LayerLayout& layout() const { return batch.layout().layers[slot]; }
  /// Layout and cache of the layer whose rows this one reads.
  const LayerLayout& source_layout() const { return batch.layout().layers[batch.layout().slot(role.kv_source)]; }
  LayerCache& source_cache(int sequence) const {
    return batch.sequences[static_cast<std::size_t>(sequence)].sequence->layers[batch.layout().slot(role.kv_source)];
  }

  bool traces(std::string_view name) const { return trace != nullptr && trace->wants(name); }
  /// Shows rows [tile.rows, width] of the tile's tokens, sequence by sequence.
  void show(std::string_view name, const Tile& tile, View<const bf16, 2> rows) const;
  void show(std::string_view name, const Tile& tile, View<const float, 2> rows) const;

  /// Shows attention [tile.rows, heads * width], which a trace may replace. `sink`: [heads], or null.
  void show_attention(const Tile& tile, View<bf16, 2> out, View<const float, 2> log_sum, const float* sink) const;

  /// Cosines and sines [positions, pairs, 2] of this layer, in the arena.
  View<const float, 3> angles(std::span<const std::int64_t> positions) const;
  /// Rotates x [rows, heads * width] seen as heads of `width`.
  void rotate(View<bf16, 2> x, int width, View<const float, 3> cos_sin,
              RotationStyle style = RotationStyle::tail_adjacent, bool inverse = false) const;
  /// [rows, width of the projection], in the arena.
  View<bf16, 2> project(View<const bf16, 2> x, const Weight& weight) const;
  View<bf16, 2> project(View<const bf16, 2> x, const NormedProjection& projection) const;
};

/// Queries of a tile: low-rank [rows, q_lora_rank], and of all heads [rows, heads * width], tails rotated.
struct Queries {
  View<bf16, 2> low_rank, heads;
};
Queries project_queries(const LayerRun& run, const Tile& tile, View<const bf16, 2> x, const NormedProjection& down,
                        const Weight& up, int head_width, View<const float, 3> angles);

/// Takes all tokens of the batch through run_tile(tile, x rows, out rows), so many at a time that their activations
/// (`row_bytes` each) fit half the workspace; scores may use the other half. More than 256 rows do not make any kernel
/// faster.
template <class RunTile>
void run_tiles(const LayerRun& run, std::int64_t row_bytes, View<const bf16, 2> x, View<bf16, 2> out,
               RunTile run_tile) {
  const std::int64_t step = std::clamp<std::int64_t>(run.batch.cache->options.workspace_bytes / 2 / row_bytes, 1, 256);
  run.batch.stage(run.slot);
  for (std::int64_t first = 0; first < run.batch.tokens; first += step) {
    const std::int64_t count = std::min(step, run.batch.tokens - first);
    const Arena::Scope scope(run.arena());
    run_tile(make_tile(run.batch, first, count), x.rows(first, count), out.rows(first, count));
    if (run.trace == nullptr) continue;
    run.trace->progress(run.layer, first + count, run.batch.tokens);
    if (run.trace->cancelled()) throw Error(ErrorCode::cancelled, fmt::format("layer {}: cancelled", run.layer));
  }
  run.batch.trim(run.slot);
}

}  // namespace skim

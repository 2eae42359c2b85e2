// One call of Model::forward: what all steps of a layer share.
#pragma once

#include <string_view>

#include "attention/layer_weights.hpp"
#include "attention/rope.hpp"
#include "attention/tile.hpp"
#include "cache/batch_impl.hpp"
#include "kernels/kernels.hpp"
#include "skim/config.hpp"
#include "skim/trace.hpp"

namespace skim {

struct LayerRun {
  const V41Config& config;
  int layer;
  const LayerRole& role;
  const LayerWeights& weights;
  const RopeTable& rope;
  const Kernels& kernels;
  Batch::Impl& batch;
  std::size_t slot;     ///< Of the layer in the cache layout.
  Trace* trace;         ///< May be null.
  bool watches_scores;  ///< The trace wants index_score; asked once, since the workspace depends on it.

  Context& context() const { return *batch.context; }
  Arena& arena() const { return batch.context->arena(); }
  const LayerLayout& layout() const { return batch.layout().layers[slot]; }
  /// Layout and cache of the layer whose compressed rows this one reads.
  const LayerLayout& source_layout() const { return batch.layout().layers[batch.layout().slot(role.kv_source)]; }
  LayerCache& source_cache(int sequence) const {
    return batch.sequences[static_cast<std::size_t>(sequence)].sequence->layers[batch.layout().slot(role.kv_source)];
  }

  bool traces(std::string_view name) const { return trace != nullptr && trace->wants(name); }
  /// Shows rows [tile.rows, width] of the tile's tokens, sequence by sequence.
  void show(std::string_view name, const Tile& tile, View<const bf16, 2> rows) const;

  /// Cosines and sines [positions, pairs, 2] of this layer, in the arena.
  View<const float, 3> angles(std::span<const std::int64_t> positions) const;
  /// Rotates the tails of x [rows, heads * width] seen as heads of `width`.
  void rotate(View<bf16, 2> x, int width, View<const float, 3> cos_sin, bool inverse) const;
};

/// Runs all tokens of the batch through a V4.1 layer: docs/v41.md.
void run_v41_layer(const LayerRun& run, View<const bf16, 2> x, View<bf16, 2> out);

/// Step 3: closes groups, and appends their compressed rows and index keys. x: [rows, dim].
void compress(const LayerRun& run, const Tile& tile, View<const bf16, 2> x);

/// Steps 4 to 6: scores, candidate blocks, top-k, published in the batch. x: [rows, dim]; qr: [rows, q_lora_rank].
void select(const LayerRun& run, const Tile& tile, View<const bf16, 2> x, View<const bf16, 2> qr);

}  // namespace skim

// One call of Model::forward on a V4.1 layer: docs/v41.md.
#pragma once

#include "attention/layer_run.hpp"
#include "attention/v41_weights.hpp"
#include "skim/config.hpp"

namespace skim {

struct V41Run : LayerRun {
  const V41Config& config;
  const V41Weights& weights;
};

/// Runs all tokens of the batch through the layer.
void run_layer(const V41Run& run, View<const bf16, 2> x, View<bf16, 2> out);

/// Step 3: closes groups, and appends their compressed rows and index keys. x: [rows, dim].
void compress(const V41Run& run, const Tile& tile, View<const bf16, 2> x);

}  // namespace skim

// One call of Model::forward on a V4.1 layer: docs/v41.md.
#pragma once

#include "attention/layer_call.hpp"
#include "models/v41/weights.hpp"
#include "skim/config.hpp"

namespace skim::v41 {

struct Call : LayerCall {
  const V41Config& config;
  const Weights& weights;
};

/// Step 3: closes groups, and appends their compressed rows and index keys. x: [rows, dim].
void compress(const Call& call, const Tile& tile, View<const bf16, 2> x);

}  // namespace skim::v41

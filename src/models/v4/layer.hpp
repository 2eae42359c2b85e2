// One call of Model::forward on a V4 layer: docs/v4.md.
#pragma once

#include "attention/layer_call.hpp"
#include "models/v4/weights.hpp"
#include "skim/config.hpp"

namespace skim::v4 {

struct Call : LayerCall {
  const V4Config& config;
  const Weights& weights;
};

/// Step 3: closes groups, and appends their compressed rows and index keys. x: [rows, dim].
void compress(const Call& call, const Tile& tile, View<const bf16, 2> x);

}  // namespace skim::v4

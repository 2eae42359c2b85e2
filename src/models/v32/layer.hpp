// One call of Model::forward on a V3.2 layer: docs/v32.md.
#pragma once

#include "attention/layer_call.hpp"
#include "models/v32/weights.hpp"
#include "skim/config.hpp"

namespace skim::v32 {

struct Call : LayerCall {
  const V32Config& config;
  const Weights& weights;
};

/// Steps 3 and 4: appends index keys, and publishes what each query selects. x: [rows, dim]; qr: [rows, q_lora_rank].
void select_positions(const Call& call, const Tile& tile, View<const bf16, 2> x, View<const bf16, 2> qr,
                      View<const float, 3> angles);

/// Scale of the logits: that of the trained width, times mscale^2 with YaRN.
double softmax_scale(const V32Config& config, bool yarn);

}  // namespace skim::v32

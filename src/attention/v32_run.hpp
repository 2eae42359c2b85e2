// One call of Model::forward on a V3.2 layer: docs/v32.md.
#pragma once

#include "attention/layer_run.hpp"
#include "attention/v32_weights.hpp"
#include "skim/config.hpp"

namespace skim {

struct V32Run : LayerRun {
  const V32Config& config;
  const V32Weights& weights;
};

/// Runs all tokens of the batch through the layer.
void run_layer(const V32Run& run, View<const bf16, 2> x, View<bf16, 2> out);

/// Steps 3 and 4: appends index keys, and publishes what each query selects. x: [rows, dim]; qr: [rows, q_lora_rank].
void select_positions(const V32Run& run, const Tile& tile, View<const bf16, 2> x, View<const bf16, 2> qr,
                      View<const float, 3> angles);

/// Scale of the logits: that of the trained width, times mscale^2 with YaRN.
double softmax_scale(const V32Config& config, bool yarn);

}  // namespace skim

// The output of layers whose heads are projected in groups: V4 and V4.1.
#pragma once

#include <vector>

#include "attention/layer_call.hpp"

namespace skim {

/// out = [o_g wo_a_g^T for each group g of heads] wo_b^T. o: [rows, heads * width]; wo_a: per group [o_lora_rank, heads
/// / groups * width]; wo_b: [dim, groups * o_lora_rank]; out: [rows, dim].
void project_grouped_output(const LayerCall& call, const Tile& tile, View<const bf16, 2> o,
                            const std::vector<Weight>& wo_a, const Weight& wo_b, View<bf16, 2> out);

}  // namespace skim

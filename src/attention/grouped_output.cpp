#include "attention/grouped_output.hpp"

namespace skim {

void project_grouped_output(const LayerCall& call, const Tile& tile, View<const bf16, 2> o,
                            const std::vector<Weight>& wo_a, const Weight& wo_b, View<bf16, 2> out) {
  const std::int64_t groups = std::ssize(wo_a), rank = wo_a.front().format.out;
  const auto o_lora = call.arena().tensor<bf16, 2>({tile.rows, groups * rank});
  call.kernels.linear_groups(call.context(), {o.data, {tile.rows, groups, o.shape[1] / groups}}, wo_a,
                             {o_lora.data, {tile.rows, groups, rank}});
  call.show("o_lora", tile, o_lora);
  call.kernels.linear(call.context(), o_lora, wo_b, out);
  call.show("out", tile, out);
}

}  // namespace skim

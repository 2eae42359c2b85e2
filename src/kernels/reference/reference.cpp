#include "kernels/reference/reference.hpp"

#include "kernels/linear_groups.hpp"

namespace skim::reference {

const Kernels& kernels() {
  static const Kernels table = {
      .pack_weight = pack_weight,
      .linear = linear,
      .linear_f32 = linear_f32,
      .linear_groups = linear_each_group<linear>,
      .rms_norm = rms_norm,
      .layer_norm = layer_norm,
      .norm_heads = norm_heads,
      .rotate = rotate,
      .hadamard = hadamard,
      .pool_groups = pool_groups,
      .pack_rows = pack_rows,
      .index_score = index_score,
      .select_topk = select_topk,
      .select_blocks = select_blocks,
      .attend = attend,
  };
  return table;
}

}  // namespace skim::reference

// The operations of kernels/simd as entries of a table. A set of vectors is a Vector (kernels/<set>/vector.hpp) and one
// file that calls this.
#pragma once

#include "kernels/reference/reference.hpp"
#include "kernels/simd/attend.hpp"
#include "kernels/simd/hadamard.hpp"
#include "kernels/simd/index.hpp"
#include "kernels/simd/linear.hpp"
#include "kernels/simd/norm.hpp"
#include "kernels/simd/pack.hpp"
#include "kernels/simd/rotate.hpp"
#include "kernels/simd/select.hpp"

namespace skim::simd {

/// Operations not named here are the reference's.
template <class V>
Kernels table() {
  Kernels entries = reference::kernels();
  entries.pack_weight = pack_weight<V>;
  entries.linear = multiply_one<V, bf16>;
  entries.linear_f32 = multiply_one<V, float>;
  entries.linear_groups = multiply_groups<V>;
  entries.norm_heads = norm_heads<V>;
  entries.rotate = rotate<V>;
  entries.hadamard = hadamard<V>;
  entries.pack_rows = pack_rows<V>;
  entries.index_score = index_score<V>;
  entries.select_topk = select_topk<V>;
  entries.select_blocks = select_blocks<V>;
  entries.attend = attend<V>;
  return entries;
}

}  // namespace skim::simd

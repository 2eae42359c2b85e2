// The weights of one V3.2 layer, packed for a kernel set.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/layer_loader.hpp"
#include "kernels/kernels.hpp"
#include "skim/config.hpp"

namespace skim::v32 {

struct Weights {
  Weight wq_a;                 ///< [q_lora_rank, dim]
  std::vector<float> q_norm;   ///< [q_lora_rank]
  Weight wq_b;                 ///< [n_heads * (nope + rope), q_lora_rank]
  Weight wkv_a;                ///< [kv_lora_rank + rope, dim]
  std::vector<float> kv_norm;  ///< [kv_lora_rank]
  std::vector<Weight> wk_b;    ///< Per head [kv_lora_rank, nope]: wkv_b[:nope] transposed, query to latent.
  std::vector<Weight> wv_b;    ///< Per head [v_head_dim, kv_lora_rank]: wkv_b[nope:], latent to value.
  Weight wo;                   ///< [dim, n_heads * v_head_dim]

  Weight index_wq_b;                ///< [index_n_heads * index_head_dim, q_lora_rank]
  Weight index_wk;                  ///< [index_head_dim, dim]
  std::vector<float> index_k_norm;  ///< [index_head_dim]
  std::vector<float> index_k_bias;  ///< [index_head_dim]
  Weight index_weights;             ///< [index_n_heads, dim]

  std::int64_t bytes() const;
};

/// Packs the tensors of a layer, which were found to be there and of the right shape and dtype.
Weights load_weights(const LayerLoader& load, const V32Config& config);

}  // namespace skim::v32

// The weights of one V4.1 layer, packed for a kernel set.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attention/layer_loader.hpp"
#include "kernels/kernels.hpp"
#include "skim/config.hpp"

namespace skim::v41 {

struct CompressorWeights {
  Weight wkv;                   ///< [head_dim, dim]
  std::optional<Weight> wgate;  ///< [head_dim, dim]; only at ratio > 1.
  std::vector<float> norm;      ///< [head_dim]
  Weight wk;                    ///< [index_head_dim, head_dim]: latent to index key.
  std::vector<float> k_norm;    ///< [index_head_dim]
};

struct IndexerWeights {
  Weight wq_b;          ///< [index_n_heads * index_head_dim, q_lora_rank]
  Weight weights_proj;  ///< [index_n_heads, dim]
};

struct Weights {
  Weight wq_a;                                  ///< [q_lora_rank, dim]
  std::vector<float> q_norm;                    ///< [q_lora_rank]
  Weight wq_b;                                  ///< [n_heads * head_dim, q_lora_rank]
  Weight wkv;                                   ///< [head_dim, dim]
  std::vector<float> kv_norm;                   ///< [head_dim]
  std::vector<float> sink;                      ///< [n_heads]
  std::vector<Weight> wo_a;                     ///< Per group [o_lora_rank, n_heads / o_groups * head_dim]
  Weight wo_b;                                  ///< [dim, o_groups * o_lora_rank]
  std::optional<CompressorWeights> compressor;  ///< full
  std::optional<IndexerWeights> indexer;        ///< full and reindex

  std::int64_t bytes() const;
};

/// Packs the tensors of a layer of this role, which were found to be there and of the right shape and dtype.
Weights load_weights(const LayerLoader& load, const V41Config& config, const LayerRole& role);

}  // namespace skim::v41

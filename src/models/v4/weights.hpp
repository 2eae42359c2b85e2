// The weights of one V4 layer, packed for a kernel set.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attention/layer_loader.hpp"
#include "kernels/kernels.hpp"
#include "skim/config.hpp"

namespace skim::v4 {

/// Makes latents of `width` elements. Rows of overlapping groups come twice: those for the group after a token's own,
/// then those for its own.
struct CompressorWeights {
  Weight wkv, wgate;        ///< [width or 2 * width, dim]
  std::vector<float> ape;   ///< [ratio, width or 2 * width]: added to the score by a token's place in its group.
  std::vector<float> norm;  ///< [width]
};

struct IndexerWeights {
  Weight wq_b;                   ///< [index_n_heads * index_head_dim, q_lora_rank]
  Weight weights_proj;           ///< [index_n_heads, dim]
  CompressorWeights compressor;  ///< Of index_head_dim.
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
  std::optional<CompressorWeights> compressor;  ///< Of head_dim; ratio > 0.
  std::optional<IndexerWeights> indexer;        ///< Ratio 4.

  std::int64_t bytes() const;
};

/// Packs the tensors of a layer of this role, which were found to be there and of the right shape and dtype.
Weights load_weights(const LayerLoader& load, const V4Config& config, const LayerRole& role);

}  // namespace skim::v4

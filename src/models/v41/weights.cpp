#include "models/v41/weights.hpp"

#include <string>

namespace skim::v41 {
std::int64_t Weights::bytes() const {
  std::int64_t total = wq_a.bytes() + wq_b.bytes() + wkv.bytes() + wo_b.bytes();
  for (const Weight& group : wo_a) total += group.bytes();
  if (compressor) {
    total += compressor->wkv.bytes() + compressor->wk.bytes() + (compressor->wgate ? compressor->wgate->bytes() : 0);
  }
  if (indexer) total += indexer->wq_b.bytes() + indexer->weights_proj.bytes();
  return total;
}

Weights load_weights(const LayerLoader& load, const V41Config& config, const LayerRole& role) {
  Weights weights{
      .wq_a = load.weight("wq_a.weight"),
      .q_norm = load.vector("q_norm.weight"),
      .wq_b = load.weight("wq_b.weight"),
      .wkv = load.weight("wkv.weight"),
      .kv_norm = load.vector("kv_norm.weight"),
      .sink = load.vector("attn_sink"),
      .wo_a = load.row_groups("wo_a.weight", config.o_groups),
      .wo_b = load.weight("wo_b.weight"),
      .compressor = {},
      .indexer = {},
  };
  if (role.role == Role::full) {
    weights.compressor = CompressorWeights{
        .wkv = load.weight("compressor.wkv.weight"),
        .wgate = {},
        .norm = load.vector("compressor.norm.weight"),
        .wk = load.weight("indexer.wk.weight"),
        .k_norm = load.vector("indexer.k_norm.weight"),
    };
    if (role.ratio > 1) weights.compressor->wgate = load.weight("compressor.wgate.weight");
  }
  if (role.role == Role::full || role.role == Role::reindex) {
    weights.indexer = IndexerWeights{
        .wq_b = load.weight("indexer.wq_b.weight"),
        .weights_proj = load.weight("indexer.weights_proj.weight"),
    };
  }
  return weights;
}

}  // namespace skim::v41

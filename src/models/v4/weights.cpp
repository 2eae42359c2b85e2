#include "models/v4/weights.hpp"

#include <string>

namespace skim::v4 {
namespace {

CompressorWeights load_compressor(const LayerLoader& load, const std::string& name) {
  return {.wkv = load.weight(name + "wkv.weight"),
          .wgate = load.weight(name + "wgate.weight"),
          .ape = load.vector(name + "ape"),
          .norm = load.vector(name + "norm.weight")};
}

}  // namespace

std::int64_t Weights::bytes() const {
  std::int64_t total = wq_a.bytes() + wq_b.bytes() + wkv.bytes() + wo_b.bytes();
  for (const Weight& group : wo_a) total += group.bytes();
  if (compressor) total += compressor->wkv.bytes() + compressor->wgate.bytes();
  if (indexer) {
    total += indexer->wq_b.bytes() + indexer->weights_proj.bytes() + indexer->compressor.wkv.bytes() +
             indexer->compressor.wgate.bytes();
  }
  return total;
}

Weights load_weights(const LayerLoader& load, const V4Config& config, const LayerRole& role) {
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
  if (role.owns_rows()) weights.compressor = load_compressor(load, "compressor.");
  if (role.selects()) {
    weights.indexer = IndexerWeights{.wq_b = load.weight("indexer.wq_b.weight"),
                                     .weights_proj = load.weight("indexer.weights_proj.weight"),
                                     .compressor = load_compressor(load, "indexer.compressor.")};
  }
  return weights;
}

}  // namespace skim::v4

// Attention tensors of a V4.1 layer, as the released checkpoint spells them.
#include "models/v41/v41.hpp"

namespace skim::v41 {
namespace {

void add_common(const V41Config& c, TensorList& list) {
  const std::int64_t query_width = static_cast<std::int64_t>(c.n_heads) * c.head_dim;
  const std::int64_t lora_width = static_cast<std::int64_t>(c.o_groups) * c.o_lora_rank;
  list.add("attn_sink", TensorKind::sink, {c.n_heads});
  list.add("wq_a.weight", TensorKind::linear, {c.q_lora_rank, c.dim});
  list.add("q_norm.weight", TensorKind::norm, {c.q_lora_rank});
  list.add("wq_b.weight", TensorKind::linear, {query_width, c.q_lora_rank});
  list.add("wkv.weight", TensorKind::linear, {c.head_dim, c.dim});
  list.add("kv_norm.weight", TensorKind::norm, {c.head_dim});
  list.add("wo_a.weight", TensorKind::plain, {lora_width, query_width / c.o_groups}).pieces = {
      {c.o_lora_rank, query_width / c.o_groups, c.o_groups}};
  list.add("wo_b.weight", TensorKind::linear, {c.dim, lora_width});
}

}  // namespace

std::vector<LayerTensor> tensors(const Config& config, int layer) {
  const V41Config& c = config_of(config);
  const LayerRole role = role_of(config, layer);
  TensorList list(layer_prefix(config, layer));
  add_common(c, list);
  if (role.owns_rows()) {
    list.add("compressor.wkv.weight", TensorKind::unquantized, {c.head_dim, c.dim});
    if (role.ratio > 1) list.add("compressor.wgate.weight", TensorKind::unquantized, {c.head_dim, c.dim});
    list.add("compressor.norm.weight", TensorKind::norm, {c.head_dim});
    // Index keys are made of latents, of which there is one per group of tokens.
    list.add("indexer.wk.weight", TensorKind::plain, {c.index_head_dim, c.head_dim}).tokens_per_row = role.ratio;
    list.add("indexer.k_norm.weight", TensorKind::norm, {c.index_head_dim});
  }
  if (role.selects()) {
    const std::int64_t index_width = static_cast<std::int64_t>(c.index_n_heads) * c.index_head_dim;
    list.add("indexer.wq_b.weight", TensorKind::linear, {index_width, c.q_lora_rank});
    list.add("indexer.weights_proj.weight", TensorKind::plain, {c.index_n_heads, c.dim});
  }
  return std::move(list).take();
}

}  // namespace skim::v41

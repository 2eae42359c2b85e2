// Attention tensors of a V3.2 layer, as the released checkpoint spells them.
#include "models/v32/v32.hpp"

namespace skim::v32 {

std::vector<LayerTensor> tensors(const Config& config, int layer) {
  const V32Config& c = config_of(config);
  const std::int64_t heads = c.n_heads, index_heads = c.index_n_heads;
  const std::int64_t query_width = heads * (c.qk_nope_head_dim + c.qk_rope_head_dim);
  const std::int64_t key_value_width = heads * (c.qk_nope_head_dim + c.v_head_dim);
  TensorList list(layer_prefix(config, layer));
  list.add("q_a_proj.weight", TensorKind::linear, {c.q_lora_rank, c.dim});
  list.add("q_a_layernorm.weight", TensorKind::norm, {c.q_lora_rank});
  list.add("q_b_proj.weight", TensorKind::linear, {query_width, c.q_lora_rank});
  list.add("kv_a_proj_with_mqa.weight", TensorKind::linear, {std::int64_t{c.kv_lora_rank} + c.qk_rope_head_dim, c.dim});
  list.add("kv_a_layernorm.weight", TensorKind::norm, {c.kv_lora_rank});
  list.add("kv_b_proj.weight", TensorKind::linear, {key_value_width, c.kv_lora_rank}).pieces = {
      {c.kv_lora_rank, c.qk_nope_head_dim, c.n_heads}, {c.v_head_dim, c.kv_lora_rank, c.n_heads}};
  list.add("o_proj.weight", TensorKind::linear, {c.dim, heads * c.v_head_dim});
  list.add("indexer.wq_b.weight", TensorKind::linear, {index_heads * c.index_head_dim, c.q_lora_rank});
  list.add("indexer.wk.weight", TensorKind::linear, {c.index_head_dim, c.dim});
  list.add("indexer.k_norm.weight", TensorKind::norm, {c.index_head_dim});
  list.add("indexer.k_norm.bias", TensorKind::bias, {c.index_head_dim});
  list.add("indexer.weights_proj.weight", TensorKind::unquantized, {index_heads, c.dim});
  return std::move(list).take();
}

}  // namespace skim::v32

// Attention tensors of a V4 layer, as the released checkpoint spells them.
#include "models/v4/v4.hpp"

namespace skim::v4 {
namespace {

void add_common(const V4Config& c, TensorList& list) {
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

/// `width`: of a latent. Overlapping groups have a half for the group after them and a half for their own.
void add_compressor(const V4Config& c, const std::string& name, int ratio, std::int64_t width, TensorList& list) {
  const std::int64_t rows = overlaps(ratio) ? 2 * width : width;
  list.add(name + "wkv.weight", TensorKind::unquantized, {rows, c.dim});
  list.add(name + "wgate.weight", TensorKind::unquantized, {rows, c.dim});
  list.add(name + "ape", TensorKind::sink, {ratio, rows});
  list.add(name + "norm.weight", TensorKind::norm, {width});
}

}  // namespace

std::vector<LayerTensor> tensors(const Config& config, int layer) {
  const V4Config& c = config_of(config);
  const LayerRole role = layer_role(config, layer);
  TensorList list(layer_prefix(config, layer));
  add_common(c, list);
  if (role.owns_rows()) add_compressor(c, "compressor.", role.ratio, c.head_dim, list);
  if (role.selects()) {
    const std::int64_t index_width = static_cast<std::int64_t>(c.index_n_heads) * c.index_head_dim;
    list.add("indexer.wq_b.weight", TensorKind::linear, {index_width, c.q_lora_rank});
    list.add("indexer.weights_proj.weight", TensorKind::plain, {c.index_n_heads, c.dim});
    add_compressor(c, "indexer.compressor.", role.ratio, c.index_head_dim, list);
  }
  return std::move(list).take();
}

}  // namespace skim::v4

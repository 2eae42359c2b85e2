#include "checkpoint/tensor_names.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace skim {

std::string layer_prefix(const V41Config& config, int layer) {
  return layer < config.n_layers ? fmt::format("layers.{}.attn.", layer)
                                 : fmt::format("mtp.{}.attn.", layer - config.n_layers);
}

int layer_of_tensor(const V41Config& config, std::string_view name) {
  const bool draft = name.starts_with("mtp.");
  if (!draft && !name.starts_with("layers.")) return -1;
  const std::string_view digits = name.substr(name.find('.') + 1);
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const int count = draft ? config.n_draft_layers : config.n_layers;
  if (error != std::errc() || number < 0 || number >= count) return -1;
  const int layer = draft ? config.n_layers + number : number;
  return name.starts_with(layer_prefix(config, layer)) ? layer : -1;
}

std::vector<LayerTensor> layer_tensors(const V41Config& c, int layer) {
  const std::string prefix = layer_prefix(c, layer);
  std::vector<LayerTensor> tensors;
  const auto add = [&](std::string_view name, TensorKind kind, std::vector<std::int64_t> shape) {
    tensors.push_back({prefix + std::string(name), kind, std::move(shape)});
  };
  const std::int64_t query_width = static_cast<std::int64_t>(c.n_heads) * c.head_dim;
  const std::int64_t lora_width = static_cast<std::int64_t>(c.o_groups) * c.o_lora_rank;
  add("attn_sink", TensorKind::sink, {c.n_heads});
  add("wq_a.weight", TensorKind::linear, {c.q_lora_rank, c.dim});
  add("q_norm.weight", TensorKind::norm, {c.q_lora_rank});
  add("wq_b.weight", TensorKind::linear, {query_width, c.q_lora_rank});
  add("wkv.weight", TensorKind::linear, {c.head_dim, c.dim});
  add("kv_norm.weight", TensorKind::norm, {c.head_dim});
  add("wo_a.weight", TensorKind::plain, {lora_width, query_width / c.o_groups});
  add("wo_b.weight", TensorKind::linear, {c.dim, lora_width});

  const LayerRole role = layer_role(c, layer);
  if (role.role == Role::full) {
    add("compressor.wkv.weight", TensorKind::compressor, {c.head_dim, c.dim});
    if (role.ratio > 1) add("compressor.wgate.weight", TensorKind::compressor, {c.head_dim, c.dim});
    add("compressor.norm.weight", TensorKind::norm, {c.head_dim});
    add("indexer.wk.weight", TensorKind::plain, {c.index_head_dim, c.head_dim});
    add("indexer.k_norm.weight", TensorKind::norm, {c.index_head_dim});
  }
  if (role.role == Role::full || role.role == Role::reindex) {
    const std::int64_t index_width = static_cast<std::int64_t>(c.index_n_heads) * c.index_head_dim;
    add("indexer.wq_b.weight", TensorKind::linear, {index_width, c.q_lora_rank});
    add("indexer.weights_proj.weight", TensorKind::plain, {c.index_n_heads, c.dim});
  }
  return tensors;
}

std::string scale_name(const std::string& weight_name) {
  constexpr std::string_view suffix = ".weight";
  if (!weight_name.ends_with(suffix)) return weight_name + ".scale";
  return weight_name.substr(0, weight_name.size() - suffix.size()) + ".scale";
}

std::vector<std::int64_t> scale_shape(const std::vector<std::int64_t>& weight_shape) {
  return {(weight_shape[0] + kV41Block - 1) / kV41Block, (weight_shape[1] + kV41Block - 1) / kV41Block};
}

}  // namespace skim

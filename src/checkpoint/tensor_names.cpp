#include "checkpoint/tensor_names.hpp"

#include <fmt/format.h>

#include <charconv>
#include <functional>

namespace skim {
namespace {

using AddTensor = std::function<void(std::string_view name, TensorKind kind, std::vector<std::int64_t> shape)>;

void add_tensors(const V41Config& c, int layer, const AddTensor& add) {
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
    add("compressor.wkv.weight", TensorKind::unquantized, {c.head_dim, c.dim});
    if (role.ratio > 1) add("compressor.wgate.weight", TensorKind::unquantized, {c.head_dim, c.dim});
    add("compressor.norm.weight", TensorKind::norm, {c.head_dim});
    add("indexer.wk.weight", TensorKind::plain, {c.index_head_dim, c.head_dim});
    add("indexer.k_norm.weight", TensorKind::norm, {c.index_head_dim});
  }
  if (role.role == Role::full || role.role == Role::reindex) {
    const std::int64_t index_width = static_cast<std::int64_t>(c.index_n_heads) * c.index_head_dim;
    add("indexer.wq_b.weight", TensorKind::linear, {index_width, c.q_lora_rank});
    add("indexer.weights_proj.weight", TensorKind::plain, {c.index_n_heads, c.dim});
  }
}

void add_tensors(const V32Config& c, int, const AddTensor& add) {
  const std::int64_t heads = c.n_heads, index_heads = c.index_n_heads;
  const std::int64_t query_width = heads * (c.qk_nope_head_dim + c.qk_rope_head_dim);
  const std::int64_t key_value_width = heads * (c.qk_nope_head_dim + c.v_head_dim);
  add("q_a_proj.weight", TensorKind::linear, {c.q_lora_rank, c.dim});
  add("q_a_layernorm.weight", TensorKind::norm, {c.q_lora_rank});
  add("q_b_proj.weight", TensorKind::linear, {query_width, c.q_lora_rank});
  add("kv_a_proj_with_mqa.weight", TensorKind::linear, {std::int64_t{c.kv_lora_rank} + c.qk_rope_head_dim, c.dim});
  add("kv_a_layernorm.weight", TensorKind::norm, {c.kv_lora_rank});
  add("kv_b_proj.weight", TensorKind::linear, {key_value_width, c.kv_lora_rank});
  add("o_proj.weight", TensorKind::linear, {c.dim, heads * c.v_head_dim});
  add("indexer.wq_b.weight", TensorKind::linear, {index_heads * c.index_head_dim, c.q_lora_rank});
  add("indexer.wk.weight", TensorKind::linear, {c.index_head_dim, c.dim});
  add("indexer.k_norm.weight", TensorKind::norm, {c.index_head_dim});
  add("indexer.k_norm.bias", TensorKind::bias, {c.index_head_dim});
  add("indexer.weights_proj.weight", TensorKind::unquantized, {index_heads, c.dim});
}

bool is_v41(const Config& config) { return std::holds_alternative<V41Config>(config); }

/// Number at the front of `text`, or -1.
int leading_number(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? number : -1;
}

}  // namespace

ScaleFormat scale_format(const Config& config) {
  return is_v41(config) ? ScaleFormat{DType::f8_e8m0, kV41Block} : ScaleFormat{DType::f32, kV32Block};
}

std::string layer_prefix(const Config& config, int layer) {
  if (!is_v41(config)) return fmt::format("model.layers.{}.self_attn.", layer);
  const int backbone = backbone_layers(config);
  return layer < backbone ? fmt::format("layers.{}.attn.", layer) : fmt::format("mtp.{}.attn.", layer - backbone);
}

int layer_of_tensor(const Config& config, std::string_view name) {
  for (const auto& [start, first] : {std::pair<std::string_view, int>{is_v41(config) ? "layers." : "model.layers.", 0},
                                     std::pair<std::string_view, int>{"mtp.", backbone_layers(config)}}) {
    if (!name.starts_with(start)) continue;
    const int number = leading_number(name.substr(start.size()));
    if (number < 0 || number >= layer_count(config) - first) return -1;
    return name.starts_with(layer_prefix(config, first + number)) ? first + number : -1;
  }
  return -1;
}

std::vector<LayerTensor> layer_tensors(const Config& config, int layer) {
  const std::string prefix = layer_prefix(config, layer);
  std::vector<LayerTensor> tensors;
  const AddTensor add = [&](std::string_view name, TensorKind kind, std::vector<std::int64_t> shape) {
    tensors.push_back({prefix + std::string(name), kind, std::move(shape)});
  };
  std::visit([&](const auto& c) { add_tensors(c, layer, add); }, config);
  return tensors;
}

std::string output_projection(const Config& config, int layer) {
  return layer_prefix(config, layer) + (is_v41(config) ? "wo_b.weight" : "o_proj.weight");
}

std::string scale_name(const Config& config, const std::string& weight_name) {
  if (!is_v41(config)) return weight_name + "_scale_inv";
  constexpr std::string_view suffix = ".weight";
  if (!weight_name.ends_with(suffix)) return weight_name + ".scale";
  return weight_name.substr(0, weight_name.size() - suffix.size()) + ".scale";
}

std::vector<std::int64_t> scale_shape(const Config& config, const std::vector<std::int64_t>& weight_shape) {
  const int block = scale_format(config).block;
  return {(weight_shape[0] + block - 1) / block, (weight_shape[1] + block - 1) / block};
}

}  // namespace skim

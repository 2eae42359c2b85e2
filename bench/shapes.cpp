#include "bench/shapes.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "cache/layout.hpp"
#include "checkpoint/tensor_names.hpp"

namespace skim::bench {
namespace {

Shapes model_shapes(const V41Config& c) {
  return {.dim = c.dim,
          .q_lora_rank = c.q_lora_rank,
          .heads = c.n_heads,
          .head_width = c.head_dim,
          .rotated = c.rope_head_dim,
          .window = c.window_size,
          .window_row = {},
          .row = {},
          .key_row = {},
          .key_width = c.head_dim,
          .value_width = c.head_dim,
          .rounding = AttendRounding::exponentials,
          .index_heads = c.index_n_heads,
          .topk = c.index_topk,
          .context = 1 << 20,
          .candidate_blocks = c.candidate_source_layer >= 0 ? c.candidate_topk_blocks : 0,
          .block_size = c.candidate_source_layer >= 0 ? c.candidate_block_size : 0};
}

Shapes model_shapes(const V32Config& c) {
  return {.dim = c.dim,
          .q_lora_rank = c.q_lora_rank,
          .heads = c.n_heads,
          .head_width = c.qk_nope_head_dim + c.qk_rope_head_dim,
          .rotated = c.qk_rope_head_dim,
          .window = 0,
          .window_row = {},
          .row = {},
          .key_row = {},
          .key_width = c.kv_lora_rank + c.qk_rope_head_dim,
          .value_width = c.kv_lora_rank,
          .rounding = AttendRounding::logits,
          .index_heads = c.index_n_heads,
          .topk = c.index_topk,
          .context = 128 << 10,
          .candidate_blocks = 0,
          .block_size = 0};
}

/// Matrices that a layer cuts into pieces before it uses them, each packed as bf16.
std::vector<LinearShape> pieces(const V41Config& c, const LayerTensor& tensor) {
  if (!tensor.name.ends_with(".wo_a.weight")) return {};
  return {{{WeightKind::bf16, c.o_lora_rank, tensor.shape[1]}, 0, c.o_groups}};
}
std::vector<LinearShape> pieces(const V32Config& c, const LayerTensor& tensor) {
  if (!tensor.name.ends_with(".kv_b_proj.weight")) return {};
  return {{{WeightKind::bf16, c.kv_lora_rank, c.qk_nope_head_dim}, 0, c.n_heads},
          {{WeightKind::bf16, c.v_head_dim, c.kv_lora_rank}, 0, c.n_heads}};
}

bool is_matrix(const LayerTensor& tensor) {
  return tensor.kind == TensorKind::linear || tensor.kind == TensorKind::unquantized ||
         tensor.kind == TensorKind::plain;
}

WeightFormat stored_format(const Checkpoint& checkpoint, const LayerTensor& tensor) {
  WeightFormat format{WeightKind::bf16, tensor.shape[0], tensor.shape[1]};
  if (checkpoint.info(tensor.name).dtype != DType::f8_e4m3) return format;  // float32 weights hold bf16 values
  const ScaleFormat scales = scale_format(checkpoint.config());
  format.kind = scales.dtype == DType::f32 ? WeightKind::fp8_f32 : WeightKind::fp8_e8m0;
  format.block = scales.block;
  const auto* v32 = std::get_if<V32Config>(&checkpoint.config());
  format.input_scale = v32 != nullptr && !v32->ue8m0_scales ? Fp8Scale::float32 : Fp8Scale::pow2;
  return format;
}

double stored_bytes(const WeightFormat& format) {
  const auto elements = static_cast<double>(format.out * format.in);
  if (!format.is_fp8()) return 2 * elements;
  const auto scales = static_cast<double>(format.block_rows() * format.block_columns());
  return elements + scales * (format.kind == WeightKind::fp8_f32 ? 4 : 1);
}

}  // namespace

Shapes shapes_of(const Config& config) {
  Shapes shapes = std::visit([](const auto& c) { return model_shapes(c); }, config);
  std::vector<int> layers(static_cast<std::size_t>(backbone_layers(config)));
  std::iota(layers.begin(), layers.end(), 0);
  for (const LayerLayout& layout : cache_layout(config, layers, host_memory()).layers) {
    shapes.window_row = layout.window_row;
    if (layout.ratio == 0) continue;
    shapes.row = layout.compressed_row;
    shapes.key_row = layout.key_row;
  }
  return shapes;
}

std::vector<LinearShape> linear_shapes(const Checkpoint& checkpoint, int layer) {
  std::vector<LinearShape> shapes;
  for (const LayerTensor& tensor : layer_tensors(checkpoint.config(), layer)) {
    if (!is_matrix(tensor)) continue;
    std::vector<LinearShape> parts = std::visit([&](const auto& c) { return pieces(c, tensor); }, checkpoint.config());
    if (parts.empty()) parts.push_back({stored_format(checkpoint, tensor)});
    for (LinearShape& part : parts) {
      part.bytes = stored_bytes(part.format);
      // Index keys are made of latents, of which there is one per group of tokens.
      if (tensor.name.ends_with(".indexer.wk.weight")) {
        part.tokens_per_row = layer_role(checkpoint.config(), layer).ratio;
      }
      shapes.push_back(part);
    }
  }
  return shapes;
}

std::vector<int> layers_of_each_role(const Config& config) {
  std::set<std::pair<Role, int>> seen;
  std::set<int> layers;
  for (int layer = 0; layer < backbone_layers(config); ++layer) {
    const LayerRole role = layer_role(config, layer);
    if (!seen.emplace(role.role, role.ratio).second) continue;
    layers.insert(layer);
    for (const int source : {role.kv_source, role.index_source, role.candidate_source}) {
      if (source >= 0) layers.insert(source);
    }
  }
  return {layers.begin(), layers.end()};
}

}  // namespace skim::bench

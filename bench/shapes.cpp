#include "bench/shapes.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "cache/layout.hpp"
#include "checkpoint/tensor_names.hpp"

namespace skim::bench {
namespace {

WeightFormat stored_format(const Checkpoint& checkpoint, const LayerTensor& tensor) {
  WeightFormat format{WeightKind::bf16, tensor.shape[0], tensor.shape[1]};
  if (checkpoint.info(tensor.name).dtype != DType::f8_e4m3) return format;  // float32 weights hold bf16 values
  const ScaleFormat scales = scale_format(checkpoint.config());
  format.kind = scales.dtype == DType::f32 ? WeightKind::fp8_f32 : WeightKind::fp8_e8m0;
  format.block = scales.block;
  format.input_scale = family_of(checkpoint.config()).shape(checkpoint.config()).input_scale;
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
  Shapes shapes{family_of(config).shape(config), {}, {}, {}};
  std::vector<int> layers(static_cast<std::size_t>(backbone_layers(config)));
  std::iota(layers.begin(), layers.end(), 0);
  for (const LayerLayout& layout : cache_layout(config, layers, host_memory()).layers) {
    if (const RingLayout* window = layout.find_ring(kWindow)) shapes.window_row = window->row;
    if (const TableLayout* rows = layout.find_table(kRows)) shapes.row = rows->row;
    if (const TableLayout* keys = layout.find_table(kKeys)) shapes.key_row = keys->row;
  }
  return shapes;
}

std::vector<LinearShape> linear_shapes(const Checkpoint& checkpoint, int layer) {
  std::vector<LinearShape> shapes;
  for (const LayerTensor& tensor : layer_tensors(checkpoint.config(), layer)) {
    if (!tensor.is_matrix()) continue;
    std::vector<LinearShape> parts;
    for (const auto& [out, in, count] : tensor.pieces) parts.push_back({{WeightKind::bf16, out, in}, 0, count});
    if (parts.empty()) parts.push_back({stored_format(checkpoint, tensor)});
    for (LinearShape& part : parts) {
      part.bytes = stored_bytes(part.format);
      part.tokens_per_row = tensor.tokens_per_row;
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

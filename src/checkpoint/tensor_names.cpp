#include "checkpoint/tensor_names.hpp"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "models/family.hpp"

namespace skim {
namespace {

/// Number at the front of `text`, or -1.
int leading_number(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? number : -1;
}

}  // namespace

const ScaleFormat& scale_format(const Config& config) { return family_of(config).scales; }

std::string layer_prefix(const Config& config, int layer) {
  require_layer(config, layer);
  const LayerNames& names = family_of(config).layer_names;
  const int backbone = backbone_layers(config);
  if (layer < backbone || names.before_draft.empty()) return fmt::format("{}{}{}", names.before, layer, names.after);
  return fmt::format("{}{}{}", names.before_draft, layer - backbone, names.after);
}

int layer_of_tensor(const Config& config, std::string_view name) {
  const LayerNames& names = family_of(config).layer_names;
  for (const auto& [start, first] : {std::pair<std::string_view, int>{names.before, 0},
                                     std::pair<std::string_view, int>{names.before_draft, backbone_layers(config)}}) {
    if (start.empty() || !name.starts_with(start)) continue;
    const int number = leading_number(name.substr(start.size()));
    if (number < 0 || number >= layer_count(config) - first) return -1;
    return name.starts_with(layer_prefix(config, first + number)) ? first + number : -1;
  }
  return -1;
}

std::vector<LayerTensor> layer_tensors(const Config& config, int layer) {
  return family_of(config).tensors(config, layer);
}

std::string output_projection(const Config& config, int layer) {
  return layer_prefix(config, layer) + std::string(family_of(config).output_projection);
}

std::string scale_name(const Config& config, const std::string& weight_name) {
  const ScaleFormat& scales = scale_format(config);
  const std::size_t kept = weight_name.size() - (weight_name.ends_with(scales.replaced) ? scales.replaced.size() : 0);
  return weight_name.substr(0, kept) + std::string(scales.suffix);
}

std::vector<std::int64_t> scale_shape(const Config& config, const std::vector<std::int64_t>& weight_shape) {
  const int block = scale_format(config).block;
  return {(weight_shape[0] + block - 1) / block, (weight_shape[1] + block - 1) / block};
}

}  // namespace skim

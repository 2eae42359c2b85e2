#include <fmt/format.h>

#include <algorithm>

#include "skim/config.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

bool contains(const std::vector<int>& list, int layer) {
  return std::find(list.begin(), list.end(), layer) != list.end();
}

/// Nearest of `sources` at or before `layer` that has the layer's ratio.
int nearest(const V41Config& config, const std::vector<int>& sources, int layer) {
  int found = -1;
  for (const int source : sources) {
    if (source <= layer && config.ratio(source) == config.ratio(layer)) found = std::max(found, source);
  }
  return found;
}

LayerRole role_in(const V41Config& config, int layer) {
  LayerRole role;
  role.ratio = config.ratio(layer);
  if (role.ratio == 0) return role;
  const bool selects = contains(config.index_source_layers, layer);
  role.kv_source = nearest(config, config.kv_source_layers, layer);
  role.index_source = nearest(config, config.index_source_layers, layer);
  role.role = role.kv_source == layer ? Role::full : selects ? Role::reindex : Role::reuse;
  role.is_candidate_source = layer == config.candidate_source_layer;
  if (selects && config.candidate_source_layer >= 0 && config.candidate_source_layer < layer) {
    role.candidate_source = config.candidate_source_layer;
  }
  return role;
}

LayerRole role_in(const V32Config&, int layer) {
  return {.role = Role::full, .ratio = 1, .kv_source = layer, .index_source = layer};
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::window_only:
      return "window";
    case Role::full:
      return "full";
    case Role::reindex:
      return "reindex";
    case Role::reuse:
      return "reuse";
  }
  return "";
}

LayerRole layer_role(const Config& config, int layer) {
  const int count = layer_count(config);
  if (layer < 0 || layer >= count) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("layer {} does not exist: the model has layers 0 to {}", layer, count - 1));
  }
  return std::visit([&](const auto& c) { return role_in(c, layer); }, config);
}

}  // namespace skim

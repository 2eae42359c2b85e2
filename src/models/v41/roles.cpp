// What each V4.1 layer does about compressed positions.
#include <algorithm>

#include "models/v41/v41.hpp"

namespace skim::v41 {
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

}  // namespace

LayerRole role(const Config& config, int layer) {
  const V41Config& c = config_of(config);
  LayerRole role{.layer = layer, .ratio = c.ratio(layer)};
  if (role.ratio == 0) return role;
  const bool selects = contains(c.index_source_layers, layer);
  role.kv_source = nearest(c, c.kv_source_layers, layer);
  role.index_source = nearest(c, c.index_source_layers, layer);
  role.role = role.kv_source == layer ? Role::full : selects ? Role::reindex : Role::reuse;
  if (role.role != Role::reuse) role.key_source = role.kv_source;
  role.is_candidate_source = layer == c.candidate_source_layer;
  if (selects && c.candidate_source_layer >= 0 && c.candidate_source_layer < layer) {
    role.candidate_source = c.candidate_source_layer;
  }
  return role;
}

}  // namespace skim::v41

// What each V4 layer does about compressed positions: its ratio says it.
#include "models/v4/v4.hpp"

namespace skim::v4 {

LayerRole role(const Config& config, int layer) {
  LayerRole role{.layer = layer, .ratio = config_of(config).ratio(layer)};
  if (role.ratio == 0) return role;
  role.kv_source = layer;
  role.role = Role::dense;
  if (!overlaps(role.ratio)) return role;
  role.role = Role::full;
  role.key_source = role.index_source = layer;
  return role;
}

}  // namespace skim::v4

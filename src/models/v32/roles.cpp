// Every V3.2 layer selects for itself.
#include "models/v32/v32.hpp"

namespace skim::v32 {

LayerRole role(const Config&, int layer) {
  return {
      .layer = layer, .role = Role::full, .ratio = 1, .kv_source = layer, .key_source = layer, .index_source = layer};
}

}  // namespace skim::v32

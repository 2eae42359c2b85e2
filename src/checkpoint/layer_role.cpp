#include <fmt/format.h>

#include "models/family.hpp"
#include "skim/config.hpp"
#include "skim/error.hpp"

namespace skim {

std::string_view role_name(Role role) {
  switch (role) {
    case Role::window_only:
      return "window";
    case Role::full:
      return "full";
    case Role::reindex:
      return "reindex";
    case Role::dense:
      return "dense";
    case Role::reuse:
      return "reuse";
  }
  return "";
}

void require_layer(const Config& config, int layer) {
  const int count = layer_count(config);
  if (layer < 0 || layer >= count) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("layer {} does not exist: the model has layers 0 to {}", layer, count - 1));
  }
}

LayerRole role_of(const Config& config, int layer) {
  require_layer(config, layer);
  return family_of(config).role(config, layer);
}

LayerRole layer_role(const Config& config, int layer) {
  validate(config);
  return role_of(config, layer);
}

}  // namespace skim

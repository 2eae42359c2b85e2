// What can be asked of the configuration of any model.
#include "skim/config.hpp"

#include <fmt/format.h>

#include "checkpoint/config_models.hpp"
#include "models/family.hpp"
#include "skim/error.hpp"

namespace skim {

std::string_view model_type(const Config& config) { return family_of(config).model_type; }

std::int64_t hidden_dim(const Config& config) { return family_of(config).shape(config).dim; }

int backbone_layers(const Config& config) { return family_of(config).shape(config).layers; }

int layer_count(const Config& config) {
  const ModelShape shape = family_of(config).shape(config);
  return shape.layers + shape.draft_layers;
}

std::string describe(const Config& config) {
  return fmt::format("{}: {}", model_type(config), family_of(config).describe(config));
}

std::string canonical_text(const Config& config) {
  return fmt::format("{} {}", model_type(config), family_of(config).canonical_text(config));
}

void validate(const Config& config, const std::string& name) {
  try {
    family_of(config).check(config);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", name, error.what()));
  }
}

Config named_config(std::string_view name) {
  std::string names;
  for (const Family* family : families()) {
    for (const NamedShape& shape : family->named_shapes) {
      if (shape.name == name) return shape.config();
      names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
    }
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("no configuration is called '{}'; there are: {}", name, names));
}

}  // namespace skim

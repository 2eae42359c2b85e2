// What can be asked of the configuration of any model.
#include "skim/config.hpp"

#include <fmt/format.h>

#include "checkpoint/config_models.hpp"
#include "skim/error.hpp"

namespace skim {

std::string_view model_type(const Config& config) {
  return std::holds_alternative<V41Config>(config) ? kV41Model : kV32Model;
}

std::int64_t hidden_dim(const Config& config) {
  return std::visit([](const auto& c) { return c.dim; }, config);
}

int backbone_layers(const Config& config) {
  return std::visit([](const auto& c) { return c.n_layers; }, config);
}

int layer_count(const Config& config) {
  return std::visit([](const auto& c) { return c.layer_count(); }, config);
}

std::string canonical_text(const Config& config) {
  return fmt::format("{} {}", model_type(config), std::visit([](const auto& c) { return canonical_text(c); }, config));
}

void validate(const Config& config, const std::string& name) {
  try {
    std::visit([](const auto& c) { check_config(c); }, config);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", name, error.what()));
  }
}

Config named_config(std::string_view name) {
  if (name == "v41-flash") return v41_flash_config();
  if (name == "v41-tiny") return v41_tiny_config();
  if (name == "v32") return v32_config();
  if (name == "v32-tiny") return v32_tiny_config();
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no configuration is called '{}'; there are: v41-flash, v41-tiny, v32, v32-tiny", name));
}

}  // namespace skim

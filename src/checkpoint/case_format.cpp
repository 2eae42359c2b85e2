#include "checkpoint/case_format.hpp"

#include <fmt/format.h>

#include "checkpoint/config_models.hpp"
#include "files/json.hpp"
#include "skim/error.hpp"

namespace skim {

Config parse_case_config(const std::string& model, const std::string& config, const std::string& name) {
  if (model != kV41Model && model != kV32Model) {
    throw Error(ErrorCode::bad_config,
                fmt::format("{}: model is '{}', expected '{}' or '{}'", name, shortened(model), kV41Model, kV32Model));
  }
  const std::string where = fmt::format("{}: config of {}", name, model);
  const nlohmann::json value = parse_json(config, where, ErrorCode::bad_config);
  const JsonObject object(value, where, ErrorCode::bad_config);
  Config parsed = model == kV41Model ? Config(read_v41_config(object)) : Config(read_v32_config(object));
  validate(parsed, where);
  return parsed;
}

}  // namespace skim

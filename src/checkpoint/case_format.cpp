#include "checkpoint/case_format.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "files/json.hpp"
#include "models/family.hpp"
#include "skim/error.hpp"

namespace skim {

Config parse_case_config(const std::string& model, const std::string& config, const std::string& name) {
  const Family* family = find_family(model);
  if (family == nullptr) {
    throw Error(ErrorCode::bad_config,
                fmt::format("{}: model is '{}', expected {}", name, shortened(model), known_model_types("'")));
  }
  const std::string where = fmt::format("{}: config of {}", name, model);
  const JsonValue value = parse_json(config, where, ErrorCode::bad_config);
  const JsonObject object(value, where, ErrorCode::bad_config);
  Config parsed = family->read(object);
  validate(parsed, where);
  return parsed;
}

}  // namespace skim

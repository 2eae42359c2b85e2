// What can be asked of the configuration of any model, and whose a document is.
#include "skim/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/out_of_memory.hpp"
#include "base/text.hpp"
#include "checkpoint/case_format.hpp"
#include "models/config_reader.hpp"
#include "models/family.hpp"
#include "models/fields.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

/// A model_type decides; a configuration without one belongs to the family that knows its fields.
const Family& family_of_document(const JsonObject& document) {
  const std::string type = document.has("model_type") ? document.text("model_type") : "";
  for (const Family* family : families()) {
    if (type.empty() ? family->recognizes(document) : type == family->model_type || type == family->other_model_type) {
      return *family;
    }
  }
  document.fail("model_type", known_model_types("\""));
}

/// What `action` throws for fields that do not fit together gets the name of the document.
template <class Action>
auto named(const std::string& name, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    const std::string what = error.what();
    throw Error(error.code(), what.starts_with(name + ": ") ? what : name + ": " + what);
  }
}

Config read(const Family& family, const JsonObject& document, const std::string& name, const ReadOptions& options) {
  return named(name, [&] { return family.read(document, options); });
}

/// The values of all fields. `config` may be a temporary.
Fields fields_in(Config& config) { return family_of(config).fields(config); }

template <class T>
T value_of(Config config, std::string_view field) {
  Fields fields = fields_in(config);
  return *std::get<T*>(field_of(fields, field).value);
}

}  // namespace

std::string_view model_type(const Config& config) { return family_of(config).model_type; }

std::int64_t hidden_dim(const Config& config) { return family_of(config).shape(config).dim; }

int backbone_layers(const Config& config) { return family_of(config).shape(config).layers; }

int layer_count(const Config& config) {
  const ModelShape shape = family_of(config).shape(config);
  const std::int64_t count = std::int64_t{shape.layers} + shape.draft_layers;  // of a configuration nobody checked
  return static_cast<int>(std::clamp<std::int64_t>(count, 0, std::numeric_limits<int>::max()));
}

std::string describe(const Config& config) {
  return fmt::format("{}: {}", model_type(config), family_of(config).describe(config));
}

std::int64_t max_positions(const Config& config) { return value_of<std::int64_t>(config, "max_positions"); }

bool uses_yarn(const Config& config, std::int64_t max_tokens) {
  return value_of<std::int64_t>(family_of(config).effective(config, max_tokens), "original_seq_len") > 0;
}

std::string canonical_text(const Config& config) {
  Config mine = config, blank = family_of(config).blank();
  return fmt::format("{} {}", model_type(config), canonical_text(fields_in(mine), fields_in(blank)));
}

std::vector<ConfigField> config_fields(Config& config) {
  const Fields fields = fields_in(config);
  return {fields.begin(), fields.end()};
}

std::vector<ConfigDifference> config_differences(const Config& first, const Config& second, std::int64_t max_tokens) {
  const Family& family = family_of(first);
  if (&family != &family_of(second)) {
    return {{"model_type", std::string(model_type(first)), std::string(model_type(second))}};
  }
  Config whole[] = {first, second};
  Config effective[] = {family.effective(first, max_tokens), family.effective(second, max_tokens)};
  std::vector<ConfigDifference> list = differences(family.fields(effective[0]), family.fields(effective[1]));
  Fields mine = family.fields(whole[0]), theirs = family.fields(whole[1]);
  for (ConfigDifference& difference : list) {
    difference.first = field_of(mine, difference.name).text();
    difference.second = field_of(theirs, difference.name).text();
  }
  return list;
}

std::string config_json(const Config& config) {
  validate(config);
  Config mine = config, blank = family_of(config).blank();
  return inference_json(model_type(config), fields_in(mine), fields_in(blank));
}

Config parse_config(std::string_view json, const std::string& name, std::vector<std::string>* assumed) {
  return or_out_of_memory(name, [&] {
    const JsonValue value = parse_json(json, name, ErrorCode::bad_config);
    const JsonObject document(value, name, ErrorCode::bad_config);
    return read(family_of_document(document), document, name, {.assumed = assumed});
  });
}

Config parse_case_config(const std::string& model, const std::string& config, const std::string& name) {
  const Family* family = find_family(model);
  if (family == nullptr) {
    throw Error(ErrorCode::bad_config,
                fmt::format("{}: model is '{}', expected {}", name, shortened(model), known_model_types("'")));
  }
  const std::string where = fmt::format("{}: config of {}", name, model);
  const JsonValue value = parse_json(config, where, ErrorCode::bad_config);
  return read(*family, JsonObject(value, where, ErrorCode::bad_config), where, {.is_recording = true});
}

void validate(const Config& config, const std::string& name) {
  named(name, [&] { family_of(config).check(config); });
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

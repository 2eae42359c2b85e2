// config.json: whose it is, and what all models spell alike.
#include <fmt/format.h>

#include "base/out_of_memory.hpp"
#include "checkpoint/config_models.hpp"
#include "models/family.hpp"

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

Config read_config(const JsonObject& document) { return family_of_document(document).read(document); }

}  // namespace

void read_weight_type(const JsonObject& object, WeightType& type) {
  if (!object.has("dtype")) return;
  const std::string dtype = object.text("dtype");
  if (dtype != "fp8" && dtype != "bf16") object.fail("dtype", "\"fp8\" or \"bf16\"");
  type = dtype == "bf16" ? WeightType::bf16 : WeightType::fp8;
}

void check_block_size(const JsonObject& object, int block) {
  if (!object.has("quantization_config")) return;
  const JsonObject quantization = object.object("quantization_config");
  if (!quantization.has("weight_block_size")) return;
  if (quantization.integers("weight_block_size") != std::vector<int>{block, block}) {
    quantization.fail("weight_block_size", fmt::format("[{}, {}]", block, block));
  }
}

RopeScaling read_yarn(const JsonObject& scaling) {
  for (const std::string_view key : {"rope_type", "type"}) {
    if (scaling.has(key) && scaling.text(key) != "yarn") scaling.fail(key, "\"yarn\"");
  }
  if (scaling.has("attention_factor") && scaling.number("attention_factor") != 1.0) {
    scaling.fail("attention_factor", "1, null or nothing: this model does not scale its rotation");
  }
  return {scaling.number("factor"), scaling.number("beta_fast"), scaling.number("beta_slow"),
          scaling.integer("original_max_position_embeddings", 1, std::int64_t{1} << 40)};
}

Config parse_config(std::string_view json, const std::string& name) {
  return or_out_of_memory(name, [&] {
    const JsonValue value = parse_json(json, name, ErrorCode::bad_config);
    Config config = read_config(JsonObject(value, name, ErrorCode::bad_config));
    validate(config, name);
    return config;
  });
}

}  // namespace skim

#include "models/config_text.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/expect_error.hpp"
#include "models/v32/config.hpp"
#include "models/v4/config.hpp"
#include "models/v41/config.hpp"

namespace skim::test {
namespace {

using nlohmann::json;
using Path = json::json_pointer;

/// Fields that config.json can say, in their places.
template <class C>
json released(C config) {
  json document;
  for (const Field& field : fields_of(config)) {
    if (field.released.empty()) continue;
    const json value = json::parse(json_value(field));
    const std::string key(field.released);
    if (field.place == Place::document) document[key] = value;
    if (field.place == Place::rope_scaling && config.original_seq_len > 0) document["rope_scaling"][key] = value;
    if (field.place == Place::quantization) document["quantization_config"][key] = value;
  }
  if (config.original_seq_len > 0) document["rope_scaling"]["type"] = "yarn";
  return document;
}

json released_document(const V41Config& config) {
  json text = released(config);
  if (config.candidate_source_layer < 0) {
    for (const char* key : {"candidate_source_layer_id", "candidate_topk_blocks", "candidate_block_size"})
      text.erase(key);
  }
  text["model_type"] = kV41Model;
  return {{"model_type", kV41Model}, {"text_config", text}};
}

json released_document(const V32Config& config) {
  json document = released(config);
  document["model_type"] = kV32Model;
  document["quantization_config"]["weight_block_size"] = {128, 128};
  if (config.original_seq_len > 0) document["rope_scaling"]["mscale_all_dim"] = config.mscale;
  if (config.indexer_types.empty()) document.erase("indexer_types");
  return document;
}

json released_document(const V4Config& config) {
  json document = released(config);
  document["model_type"] = kV4Model;
  return document;
}

/// Every field, those of nested objects included.
std::vector<Path> fields(const json& object, const Path& base = Path()) {
  std::vector<Path> list;
  for (const auto& [key, value] : object.items()) {
    list.push_back(base / key);
    if (!value.is_object()) continue;
    const std::vector<Path> inner = fields(value, list.back());
    list.insert(list.end(), inner.begin(), inner.end());
  }
  return list;
}

/// Values of other types than this one.
std::vector<json> wrong_values(const json& good) {
  if (good.is_number_integer()) return json::parse(R"(["7", true, 1.5, [7], {}])");
  if (good.is_number()) return json::parse(R"(["7", true, [7], {}])");
  if (good.is_string()) return json::parse(R"([7, true, [], {}])");
  if (good.is_object()) return json::parse(R"([7, true, "x", []])");
  if (good.is_boolean()) return json::parse(R"([7, "true", [], {}])");
  return json::parse(R"([7, "7", true, {}, [1.5], ["1"], [null], [[1]], [2147483648], [1e308]])");
}

}  // namespace

std::string released_json(const Config& config) {
  return std::visit([](const auto& c) { return released_document(c); }, config).dump();
}

std::string part(const std::string& document, const std::string& path) {
  return json::parse(document).at(Path(path)).dump();
}

std::string with(const std::string& document, const std::string& path, const std::string& value) {
  json changed = json::parse(document);
  changed[Path(path)] = json::parse(value);
  return changed.dump();
}

std::string with(std::string document, const std::vector<std::pair<std::string, std::string>>& changes) {
  for (const auto& [path, value] : changes) document = with(document, path, value);
  return document;
}

std::string without(const std::string& document, const std::string& path) {
  json changed = json::parse(document);
  changed.at(Path(path).parent_pointer()).erase(Path(path).back());
  return changed.dump();
}

Config parse_text(const std::string& document) { return parse_config(document, "x.json"); }

std::vector<std::string> assumed_of(const std::string& document) {
  std::vector<std::string> assumed;
  parse_config(document, "x.json", &assumed);
  return assumed;
}

void expect_refused(const std::string& document, const std::vector<std::string>& words) {
  const std::string message = expect_error(ErrorCode::bad_config, words, [&] { parse_text(document); });
  EXPECT_TRUE(message.starts_with("x.json: ")) << message;
  EXPECT_LT(message.size(), 500u);
}

void expect_missing_fields_named(const std::string& document, const std::set<std::string>& optional) {
  const json object = json::parse(document);
  for (const Path& path : fields(object)) {
    const std::string name = path.to_string();
    SCOPED_TRACE(name);
    if (optional.contains(name)) {
      EXPECT_NO_THROW(parse_text(without(document, name)));
      EXPECT_EQ(parse_text(with(document, name, "null")), parse_text(without(document, name)));
      continue;
    }
    if (object[path].is_object()) continue;  // without it, the other spelling is meant
    expect_refused(without(document, name), {path.back() + " is missing"});
    expect_refused(with(document, name, "null"), {path.back() + " is null"});
  }
}

void expect_wrong_types_named(const std::string& document) {
  const json object = json::parse(document);
  for (const Path& path : fields(object)) {
    for (const json& wrong : wrong_values(object[path])) {
      SCOPED_TRACE(path.to_string() + " = " + wrong.dump());
      expect_refused(with(document, path.to_string(), wrong.dump()), {path.back(), "expected"});
    }
  }
}

void expect_integers_refused(const std::string& document, const std::vector<std::string>& values,
                             const std::set<std::string>& except) {
  const json object = json::parse(document);
  for (const Path& path : fields(object)) {
    if (!object[path].is_number_integer() || except.contains(path.to_string())) continue;
    for (const std::string& value : values) {
      SCOPED_TRACE(path.to_string() + " = " + value);
      expect_refused(with(document, path.to_string(), value), {path.back() + " is " + json::parse(value).dump()});
    }
  }
}

const std::vector<std::string> kIntegersOutOfRange = {"1e308", "-1e308", "9223372036854775808", "-9223372036854775808",
                                                      "-2",    "1e18"};

void expect_only_numbers(const std::string& document, const std::string& path) {
  const std::string text = with(document, path, "\"HERE\"");
  const std::size_t here = text.find("\"HERE\"");
  for (const char* value : {"NaN", "nan", "-NaN", "Infinity", "-inf", "1e400", "-1e400", "0x10", ".5", "1.", "+1", "01",
                            "1_000", "--1", ""}) {
    SCOPED_TRACE(value);
    expect_error(ErrorCode::bad_config, {"x.json: "}, [&] { parse_text(std::string(text).replace(here, 6, value)); });
  }
}

void expect_hostile_numbers_harmless(const std::string& document) {
  const json object = json::parse(document);
  for (const Path& path : fields(object)) {
    if (!object[path].is_number()) continue;
    for (const char* value : {"0", "-1", "1e-300", "-1e-300", "1e300", "-1e300", "0.5", "2147483647", "2147483648",
                              "4294967296", "-2147483649", "9223372036854775807", "18446744073709551615", "16777217"}) {
      SCOPED_TRACE(path.to_string() + " = " + value);
      try {
        validate(parse_text(with(document, path.to_string(), value)));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_config) << error.what();
      }
    }
  }
}

}  // namespace skim::test

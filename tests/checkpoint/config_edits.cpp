#include "checkpoint/config_edits.hpp"

#include <gtest/gtest.h>

#include "checkpoint/config_documents.hpp"
#include "checkpoint/expect_error.hpp"

namespace skim::test {

json released_document(const Config& config) { return json::parse(released_text(config)); }
json inference_document(const Config& config) { return json::parse(inference_text(config)); }

Config parse_any(const json& document) { return parse_config(document.dump(), "x.json"); }

void expect_refused(const json& document, const std::vector<std::string>& words) {
  const std::string message = expect_error(ErrorCode::bad_config, words, [&] { parse_any(document); });
  EXPECT_TRUE(message.starts_with("x.json: ")) << message;
  EXPECT_LT(message.size(), 500u);
}

json with(json document, const std::string& path, const json& value) {
  document[Path(path)] = value;
  return document;
}

json without(json document, const Path& path) {
  document.at(path.parent_pointer()).erase(path.back());
  return document;
}

/// Every field, those of nested objects included.
std::vector<Path> fields(const json& object, const Path& base) {
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
  if (good.is_number_integer()) return {"7", true, 1.5, json::array({7}), json::object()};
  if (good.is_number()) return {"7", true, json::array({7}), json::object()};
  if (good.is_string()) return {7, true, json::array(), json::object()};
  if (good.is_object()) return {7, true, "x", json::array()};
  return {7,
          "7",
          true,
          json::object(),
          json::array({1.5}),
          json::array({"1"}),
          json::array({nullptr}),
          json::array({json::array({1})}),
          json::array({2147483648}),
          json::array({1e308})};
}

/// Fields that are `optional` count as absent if they are null; all others are named if they are missing.
void expect_missing_fields_named(const json& document, const std::set<std::string>& optional) {
  for (const Path& path : fields(document)) {
    SCOPED_TRACE(path.to_string());
    if (optional.contains(path.to_string())) {
      EXPECT_NO_THROW(parse_any(without(document, path)));
      EXPECT_EQ(parse_any(with(document, path.to_string(), nullptr)), parse_any(without(document, path)));
      continue;
    }
    if (document[path].is_object()) continue;  // without it, the other spelling is meant
    expect_refused(without(document, path), {path.back() + " is missing"});
    expect_refused(with(document, path.to_string(), nullptr), {path.back() + " is null"});
  }
}

void expect_wrong_types_named(const json& document) {
  for (const Path& path : fields(document)) {
    for (const json& wrong : wrong_values(document[path])) {
      SCOPED_TRACE(path.to_string() + " = " + wrong.dump());
      expect_refused(with(document, path.to_string(), wrong), {path.back(), "expected"});
    }
  }
}

/// Integers of fields that hold integers.
void expect_integers_refused(const json& document, const std::vector<json>& values,
                             const std::set<std::string>& except) {
  for (const Path& path : fields(document)) {
    if (!document[path].is_number_integer() || except.contains(path.to_string())) continue;
    for (const json& value : values) {
      SCOPED_TRACE(path.to_string() + " = " + value.dump());
      expect_refused(with(document, path.to_string(), value), {path.back() + " is " + value.dump()});
    }
  }
}

const std::vector<json> kIntegersOutOfRange = {1e308, -1e308, 9223372036854775808u, -9223372036854775807 - 1, -2, 1e18};

/// A text that is no JSON number is refused where `path` has one.
void expect_only_numbers(const json& document, const std::string& path) {
  const std::string text = with(document, path, "HERE").dump();
  const std::size_t here = text.find("\"HERE\"");
  for (const char* value : {"NaN", "nan", "-NaN", "Infinity", "-inf", "1e400", "-1e400", "0x10", ".5", "1.", "+1", "01",
                            "1_000", "--1", ""}) {
    SCOPED_TRACE(value);
    expect_error(ErrorCode::bad_config, {"x.json: "},
                 [&] { parse_config(std::string(text).replace(here, 6, value), "x.json"); });
  }
}

}  // namespace skim::test

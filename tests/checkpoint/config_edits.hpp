// A configuration changed field by field, and what must become of it.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "skim/config.hpp"

namespace skim::test {

using nlohmann::json;
using Path = json::json_pointer;

/// Those of config_documents.hpp, to be changed.
json released_document(const Config& config);
json inference_document(const Config& config);

Config parse_any(const json& document);
void expect_refused(const json& document, const std::vector<std::string>& words);

json with(json document, const std::string& path, const json& value);
json without(json document, const Path& path);

/// Every field, those of nested objects included.
std::vector<Path> fields(const json& object, const Path& base = Path());
/// Values of other types than this one.
std::vector<json> wrong_values(const json& good);

/// Fields that are `optional` count as absent if they are null; all others are named if they are missing.
void expect_missing_fields_named(const json& document, const std::set<std::string>& optional);
void expect_wrong_types_named(const json& document);

/// Integers of fields that hold integers.
void expect_integers_refused(const json& document, const std::vector<json>& values,
                             const std::set<std::string>& except = {});
extern const std::vector<json> kIntegersOutOfRange;

/// A text that is no JSON number is refused where `path` has one.
void expect_only_numbers(const json& document, const std::string& path);

}  // namespace skim::test

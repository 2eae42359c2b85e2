// Configurations as JSON text, changed field by field, and what must become of them. Paths are JSON pointers, e.g.
// "/text_config/rope_theta"; values are JSON.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "skim/config.hpp"

namespace skim::test {

/// config.json of a released model: Hugging Face names, V4.1's under text_config.
std::string released_json(const Config& config);
/// The object at a path.
std::string part(const std::string& document, const std::string& path);

std::string with(const std::string& document, const std::string& path, const std::string& value);
/// Several changes, one after the other.
std::string with(std::string document, const std::vector<std::pair<std::string, std::string>>& changes);
std::string without(const std::string& document, const std::string& path);

Config parse_text(const std::string& document);
/// What parse_config assumed.
std::vector<std::string> assumed_of(const std::string& document);

/// parse_config refuses it, in a short message that names the document and holds all the words.
void expect_refused(const std::string& document, const std::vector<std::string>& words);

/// Fields that are `optional` count as absent if they are null; all others are named if they are missing.
void expect_missing_fields_named(const std::string& document, const std::set<std::string>& optional);
void expect_wrong_types_named(const std::string& document);
/// Every integer field is named if it has one of these values.
void expect_integers_refused(const std::string& document, const std::vector<std::string>& values,
                             const std::set<std::string>& except = {});
/// Beyond what any field may be.
extern const std::vector<std::string> kIntegersOutOfRange;
/// A text that is no JSON number is refused where `path` has one.
void expect_only_numbers(const std::string& document, const std::string& path);
/// Every number of the document, replaced by hostile ones: a valid configuration or Error{bad_config}, nothing else.
void expect_hostile_numbers_harmless(const std::string& document);

}  // namespace skim::test

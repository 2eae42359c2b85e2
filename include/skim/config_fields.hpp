// The fields of a configuration as a list: for whoever prints, copies or compares configurations of any model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "skim/config.hpp"

namespace skim {

/// A field of one configuration object.
struct ConfigField {
  using Value =
      std::variant<int*, std::int64_t*, double*, bool*, std::vector<int>*, std::vector<IndexerType>*, WeightType*>;

  std::string_view name;  ///< Of the member.
  Value value;            ///< Points into the configuration.
  double low = 0;         ///< Least value of a number, or of each number of a list.
  double high = 0;        ///< Largest one.

  /// In one line, e.g. "1e-06", "[0, 2]", "true", "full".
  std::string text() const;
};

/// All fields of `config`, in the order of its struct. Valid as long as `config` stays where it is.
std::vector<ConfigField> config_fields(Config& config);

/// A field in which two configurations differ; `name` is "model_type" if they are of different models.
struct ConfigDifference {
  std::string name, first, second;
};

/// Fields that make the backbones of two configurations compute different things in caches for `max_tokens` tokens. How
/// weights are stored, draft layers and the longest context do not count, nor does a field that has no effect (YaRN's
/// where it is off, candidate blocks' without candidates).
std::vector<ConfigDifference> config_differences(const Config& first, const Config& second, std::int64_t max_tokens);

/// The configuration as JSON in the spelling of DeepSeek's inference configuration, on one line. parse_config gives it
/// back. Throws Error{bad_config} if it is not valid.
std::string config_json(const Config& config);

}  // namespace skim

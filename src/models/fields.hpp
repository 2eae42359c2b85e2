// Configurations as tables: each field with its names, bounds and place. Reading, range checks, canonical text and JSON
// are made from the table, so a field is written down once for each model.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skim/config_fields.hpp"
#include "skim/error.hpp"

namespace skim {

// Bounds keep every product of two extents inside 64 bits and every extent inside 32.
inline constexpr std::int64_t kMostExtent = 1 << 24;
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
inline constexpr std::int64_t kMostLayers = 4096, kMostDraftLayers = 1024;
inline constexpr std::int64_t kMostPositions = std::int64_t{1} << 40;

/// DeepSeek's inference configuration, or config.json with the names of Hugging Face.
enum class Spelling { inference, released };

/// What a document without the field means.
enum class Absent {
  refused,
  assumed,  ///< What is in the struct, which is said.
  plain,    ///< What is in the struct, which is no assumption: it means "nothing special".
};

/// Where config.json keeps the field.
enum class Place { document, rope_scaling, quantization };

/// What a field is good for.
enum class Use {
  result,   ///< Changes results.
  variant,  ///< The same, but models without it came first: part of the canonical text only if it is not at its
            ///< default.
  layers,   ///< Says which layers there are, and changes none of them.
  storage,  ///< Changes no result.
};

struct Field : ConfigField {
  std::string_view inference;  ///< Name in an inference configuration.
  std::string_view released;   ///< Name in config.json; empty: it cannot be said there.
  Place place = Place::document;
  Absent absent_inference = Absent::refused, absent_released = Absent::refused;
  Use use = Use::result;
  bool is_scale_format = false;  ///< A bool that documents spell "ue8m0" or null.

  Absent absent(Spelling spelling) const { return spelling == Spelling::released ? absent_released : absent_inference; }
  std::string_view spelt(Spelling spelling) const {
    return spelling == Spelling::released && !released.empty() ? released : inference;
  }

  // To be chained behind a constructor.
  Field without(Absent inference_spelling, Absent released_spelling) const;
  Field without(Absent both) const { return without(both, both); }
  Field used(Use how) const;
  Field in(Place where) const;
};

/// An extent from 1 (or `low`) to kMostExtent.
Field extent_field(std::string_view name, std::string_view released, int* value, std::int64_t low = 1);
/// Any number, or list of numbers, from low to high. The inference configuration calls it like the member.
Field number_field(std::string_view name, std::string_view released, ConfigField::Value value, double low, double high);
/// Anything else.
Field plain_field(std::string_view name, std::string_view inference, std::string_view released,
                  ConfigField::Value value);

using Fields = std::vector<Field>;

/// The field of that name, which is in the table.
Field& field_of(Fields& fields, std::string_view name);

/// Fields as a document spells them, for messages.
class FieldNames {
 public:
  void set(std::string_view member, std::string spelt) { names_[std::string(member)] = std::move(spelt); }
  /// Without a document: the member's own name.
  std::string operator()(std::string_view member) const;

 private:
  std::map<std::string, std::string, std::less<>> names_;
};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::bad_config, fmt::format(text, std::forward<Args>(args)...));
}

/// Throws Error{bad_config} for the first number that is out of range or not a number.
void check_ranges(const Fields& fields, const FieldNames& names);

/// Values of fields that results depend on, separated by spaces.
std::string canonical_text(const Fields& fields, const Fields& defaults);
/// The model and these values: equal texts, equal models but for their weights.
std::string canonical_text(const Config& config);

/// An inference configuration, without fields that may be absent and are as in `defaults`.
std::string inference_json(std::string_view model, const Fields& fields, const Fields& defaults);
/// The value of a field as documents spell it.
std::string json_value(const Field& field);

/// Fields with different values, but for those of Use::storage.
std::vector<ConfigDifference> differences(const Fields& first, const Fields& second);

}  // namespace skim

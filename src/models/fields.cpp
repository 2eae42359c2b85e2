#include "models/fields.hpp"

#include <algorithm>
#include <type_traits>

namespace skim {
namespace {

std::string text_of(IndexerType type) { return type == IndexerType::full ? "full" : "shared"; }
std::string text_of(WeightType type) { return type == WeightType::bf16 ? "bf16" : "fp8"; }
template <class T>
std::string text_of(T value) {
  return fmt::format("{}", value);
}
template <class T>
std::string text_of(const std::vector<T>& list) {
  std::string text;
  for (const T& element : list) text += (text.empty() ? "" : ", ") + text_of(element);
  return "[" + text + "]";
}

std::string json_of(IndexerType type) { return "\"" + text_of(type) + "\""; }
std::string json_of(WeightType type) { return "\"" + text_of(type) + "\""; }
/// With a point or an exponent: a float is no integer.
std::string json_of(double value) {
  const std::string text = text_of(value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
template <class T>
std::string json_of(T value) {
  return text_of(value);
}
template <class T>
std::string json_of(const std::vector<T>& list) {
  std::string text;
  for (const T& element : list) text += (text.empty() ? "" : ", ") + json_of(element);
  return "[" + text + "]";
}

void check_range(const std::string& name, double value, const Field& field) {
  if (value >= field.low && value <= field.high) return;
  refuse("{} is {}, expected {} to {}", name, field.text(), field.low, field.high);
}

void check_integer(const std::string& name, std::int64_t value, const Field& field) {
  const auto low = static_cast<std::int64_t>(field.low), high = static_cast<std::int64_t>(field.high);
  if (value < low || value > high) refuse("{} is {}, expected {} to {}", name, value, low, high);
}

void check_field(const Field& field, const std::string& name) {
  const auto check = [&](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, double>) {
      check_range(name, value, field);
    } else if constexpr (std::is_same_v<T, int> || std::is_same_v<T, std::int64_t>) {
      check_integer(name, value, field);
    } else if constexpr (std::is_same_v<T, std::vector<int>>) {
      for (std::size_t i = 0; i < value.size(); ++i) check_integer(fmt::format("{}[{}]", name, i), value[i], field);
    }
  };
  std::visit([&](const auto* value) { check(*value); }, field.value);
}

}  // namespace

std::string ConfigField::text() const {
  return std::visit([](const auto* content) { return text_of(*content); }, value);
}

Field Field::without(Absent inference_spelling, Absent released_spelling) const {
  Field changed = *this;
  changed.absent_inference = inference_spelling;
  changed.absent_released = released_spelling;
  return changed;
}

Field Field::used(Use how) const {
  Field changed = *this;
  changed.use = how;
  return changed;
}

Field Field::in(Place where) const {
  Field changed = *this;
  changed.place = where;
  return changed;
}

Field extent_field(std::string_view name, std::string_view released, int* value, std::int64_t low) {
  return number_field(name, released, value, static_cast<double>(low), static_cast<double>(kMostExtent));
}

Field number_field(std::string_view name, std::string_view released, ConfigField::Value value, double low,
                   double high) {
  Field field = plain_field(name, name, released, value);
  field.low = low;
  field.high = high;
  return field;
}

Field plain_field(std::string_view name, std::string_view inference, std::string_view released,
                  ConfigField::Value value) {
  Field field;
  field.name = name;
  field.value = value;
  field.inference = inference;
  field.released = released;
  return field;
}

Field& field_of(Fields& fields, std::string_view name) {
  return *std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
}

std::string FieldNames::operator()(std::string_view member) const {
  const auto found = names_.find(member);
  return found == names_.end() ? std::string(member) : found->second;
}

void check_ranges(const Fields& fields, const FieldNames& names) {
  for (const Field& field : fields) check_field(field, names(field.name));
}

std::string canonical_text(const Fields& fields, const Fields& defaults) {
  std::string text;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    if (field.use == Use::result) text += (text.empty() ? "" : " ") + field.text();
    if (field.use == Use::variant && field.text() != defaults[i].text()) {
      text += fmt::format(" {}={}", field.name, field.text());
    }
  }
  return text;
}

std::string json_value(const Field& field) {
  if (field.is_scale_format) return *std::get<bool*>(field.value) ? "\"ue8m0\"" : "null";
  return std::visit([](const auto* value) { return json_of(*value); }, field.value);
}

std::string inference_json(std::string_view model, const Fields& fields, const Fields& defaults) {
  std::string text = fmt::format("{{\"model_type\": \"{}\"", model);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const bool optional = fields[i].absent_inference == Absent::plain;
    if (optional && fields[i].text() == defaults[i].text()) continue;
    text += fmt::format(", \"{}\": {}", fields[i].inference, json_value(fields[i]));
  }
  return text + "}";
}

std::vector<ConfigDifference> differences(const Fields& first, const Fields& second) {
  std::vector<ConfigDifference> list;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::string mine = first[i].text(), theirs = second[i].text();
    if (first[i].use == Use::storage || mine == theirs) continue;
    list.push_back({std::string(first[i].name), mine, theirs});
  }
  return list;
}

}  // namespace skim

#include "files/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.hpp"

namespace skim {
namespace {

using nlohmann::json;

/// What went wrong in the words of the parser, without its prefix and without quoting the text (which may be long).
std::string syntax_reason(std::string_view what) {
  if (const std::size_t start = what.find("syntax error"); start != std::string_view::npos) what.remove_prefix(start);
  if (const std::size_t overflow = what.find("number overflow"); overflow != std::string_view::npos) {
    return "number beyond the range of a double";
  }
  constexpr std::string_view kQuote = "; last read: '";
  const std::size_t quote = what.find(kQuote);
  if (quote == std::string_view::npos) return std::string(what);
  return std::string(what.substr(0, quote));
}

/// Builds the document from parser events; refuses repeated keys and deep nesting, which the library's own does not.
class DocumentBuilder : public nlohmann::json_sax<json> {
 public:
  DocumentBuilder(const std::string& name, ErrorCode code) : name_(name), code_(code) {}
  JsonValue take() { return std::move(root_); }

  bool null() override { return add({nullptr}); }
  bool boolean(bool value) override { return add({value}); }
  bool number_integer(number_integer_t value) override { return add({std::int64_t{value}}); }
  bool number_unsigned(number_unsigned_t value) override {
    return std::in_range<std::int64_t>(value) ? add({static_cast<std::int64_t>(value)}) : add({std::uint64_t{value}});
  }
  bool number_float(number_float_t value, const string_t&) override { return add({value}); }
  bool string(string_t& value) override { return add({std::move(value)}); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open({JsonValue::Object()}); }
  bool start_array(std::size_t) override { return open({JsonValue::Array()}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    const auto [entry, added] = std::get<JsonValue::Object>(open_.back()->data).try_emplace(std::move(key));
    if (!added) fail(fmt::format("key '{}' appears twice in one object", shortened(entry->first)));
    slot_ = &entry->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    fail(fmt::format("not valid JSON at byte {}: {}", position, syntax_reason(error.what())));
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { throw Error(code_, fmt::format("{}: {}", name_, reason)); }

  JsonValue* place(JsonValue&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    auto* list = std::get_if<JsonValue::Array>(&open_.back()->data);
    if (list == nullptr) return &(*slot_ = std::move(value));
    return &list->emplace_back(std::move(value));
  }
  bool add(JsonValue&& value) {
    place(std::move(value));
    return true;
  }
  bool open(JsonValue&& container) {
    if (open_.size() == kMaxJsonDepth) fail(fmt::format("JSON nested deeper than {} levels", kMaxJsonDepth));
    // A pointer into the parent stays valid: the parent does not grow while a child is open.
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& name_;
  ErrorCode code_;
  JsonValue root_;
  JsonValue* slot_ = nullptr;  ///< Where the value of the last key goes.
  std::vector<JsonValue*> open_;
};

/// With a point, an exponent or both, so that a float without fraction does not look like an integer.
std::string number_text(double number) {
  const std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

/// Of lists and objects only what they are.
std::string describe_scalar(const JsonValue* value) {
  if (value->is_null()) return "null";
  if (const bool* flag = value->boolean()) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value->data)) return std::to_string(*number);
  if (const auto* number = std::get_if<std::uint64_t>(&value->data)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value->data)) return number_text(*number);
  if (const std::string* text = value->text()) return fmt::format("\"{}\"", shortened(*text));
  return value->array() != nullptr ? fmt::format("an array of {}", value->array()->size()) : "an object";
}

/// e.g. "an array of 2: [128, 64]"; the elements only if they are few.
std::string describe(const JsonValue* value) {
  constexpr std::size_t kMostElements = 8;
  if (value == nullptr) return "missing";
  std::string text = describe_scalar(value);
  const JsonValue::Array* list = value->array();
  if (list == nullptr || list->empty() || list->size() > kMostElements) return text;
  for (std::size_t i = 0; i < list->size(); ++i) text += (i == 0 ? ": [" : ", ") + describe_scalar(&(*list)[i]);
  return text + "]";
}

/// Nothing if the value is not a number, has a fraction or does not fit.
std::optional<std::int64_t> to_integer(const JsonValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) return *integer;
  const auto* number = std::get_if<double>(&value.data);
  constexpr double kTwo63 = 9223372036854775808.0;
  if (number == nullptr || !(*number >= -kTwo63 && *number < kTwo63) || std::trunc(*number) != *number) return {};
  return static_cast<std::int64_t>(*number);
}

/// Nothing if the value is not a number.
std::optional<double> to_double(const JsonValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) return static_cast<double>(*integer);
  if (const auto* integer = std::get_if<std::uint64_t>(&value.data)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  return {};
}

bool same_value(const JsonValue& a, const JsonValue& b) {
  if (const std::optional<double> number = to_double(a)) {
    const std::optional<std::int64_t> mine = to_integer(a), theirs = to_integer(b);
    return mine && theirs ? *mine == *theirs : number == to_double(b);
  }
  const JsonValue::Array *mine = a.array(), *theirs = b.array();
  if (mine == nullptr || theirs == nullptr) return a == b;
  return std::equal(mine->begin(), mine->end(), theirs->begin(), theirs->end(), same_value);
}

std::string range_text(std::int64_t low, std::int64_t high) {
  const bool from = low != std::numeric_limits<std::int64_t>::min();
  const bool to = high != std::numeric_limits<std::int64_t>::max();
  if (from && to) return fmt::format("an integer from {} to {}", low, high);
  if (from) return fmt::format("an integer of at least {}", low);
  if (to) return fmt::format("an integer of at most {}", high);
  return "an integer";
}

}  // namespace

JsonValue parse_json(std::string_view text, const std::string& name, ErrorCode code) {
  // The parser takes a NUL for the end of the text, whatever follows; JSON itself never contains one.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw Error(code, fmt::format("{}: not valid JSON at byte {}: a NUL byte", name, nul + 1));
  }
  DocumentBuilder builder(name, code);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string json_string(std::string_view text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is not valid UTF-8", shortened(text)));
  }
}

JsonObject::JsonObject(const JsonValue& value, std::string name, ErrorCode code)
    : fields_(value.object()), name_(std::move(name)), code_(code) {
  if (fields_ == nullptr) throw Error(code, fmt::format("{} is {}, expected an object", name_, describe(&value)));
}

const JsonValue* JsonObject::find(std::string_view key) const {
  const auto field = fields_->find(key);
  return field == fields_->end() ? nullptr : &field->second;
}

bool JsonObject::has(std::string_view key) const {
  const JsonValue* value = find(key);
  return value != nullptr && !value->is_null();
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  const JsonValue* value = find(key);
  const std::optional<std::int64_t> number = value == nullptr ? std::nullopt : to_integer(*value);
  if (!number || *number < low || *number > high) fail(key, value, range_text(low, high));
  return *number;
}

double JsonObject::number(std::string_view key, double low, double high) const {
  const JsonValue* value = find(key);
  const std::optional<double> number = value == nullptr ? std::nullopt : to_double(*value);
  const bool bounded = low != std::numeric_limits<double>::lowest() || high != std::numeric_limits<double>::max();
  if (bounded && !(number && *number >= low && *number <= high)) {
    fail(key, value, fmt::format("a number from {} to {}", low, high));
  }
  if (!number) fail(key, value, "a number");
  if (!std::isfinite(*number)) fail(key, value, "a finite number");
  return *number;
}

bool JsonObject::boolean(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr || value->boolean() == nullptr) fail(key, value, "true or false");
  return *value->boolean();
}

std::string JsonObject::text(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr || value->text() == nullptr) fail(key, value, "a string");
  return *value->text();
}

const JsonValue::Array& JsonObject::array(std::string_view key, std::string_view expected) const {
  const JsonValue* value = find(key);
  if (value == nullptr || value->array() == nullptr) fail(key, value, expected);
  return *value->array();
}

std::vector<int> JsonObject::integers(std::string_view key) const {
  const JsonValue::Array& list = array(key, "a list of integers");
  std::vector<int> result;
  result.reserve(list.size());
  for (const JsonValue& element : list) {
    const std::optional<std::int64_t> number = to_integer(element);
    if (!number || !std::in_range<int>(*number)) {
      fail(fmt::format("{}[{}]", key, result.size()), &element, "an integer of 32 bits");
    }
    result.push_back(static_cast<int>(*number));
  }
  return result;
}

std::vector<std::string> JsonObject::texts(std::string_view key) const {
  std::vector<std::string> result;
  for (const JsonValue& element : array(key, "a list of strings")) {
    if (element.text() == nullptr) fail(fmt::format("{}[{}]", key, result.size()), &element, "a string");
    result.push_back(*element.text());
  }
  return result;
}

std::vector<std::int64_t> JsonObject::sizes(std::string_view key) const {
  const JsonValue::Array& list = array(key, "a list of non-negative integers");
  std::vector<std::int64_t> result;
  result.reserve(list.size());
  for (const JsonValue& element : list) {
    const auto* number = std::get_if<std::int64_t>(&element.data);
    if (number == nullptr || *number < 0) {
      fail(fmt::format("{}[{}]", key, result.size()), &element, "an integer from 0 to 2^63 - 1");
    }
    result.push_back(*number);
  }
  return result;
}

JsonObject JsonObject::object(std::string_view key) const {
  const JsonValue* value = find(key);
  if (value == nullptr || value->object() == nullptr) fail(key, value, "an object");
  JsonObject result(*value, name_, code_);
  result.path_ = fmt::format("{}{}.", path_, key);
  return result;
}

bool JsonObject::equals(std::string_view key, std::string_view text) const {
  const JsonValue* value = find(key);
  return value != nullptr && same_value(*value, parse_json(text, name_, code_));
}

bool JsonObject::same(std::string_view key, const JsonObject& other, std::string_view other_key) const {
  const JsonValue *mine = find(key), *theirs = other.find(other_key);
  return mine != nullptr && theirs != nullptr && same_value(*mine, *theirs);
}

bool JsonObject::says_nothing(std::string_view key, bool one_is_plain) const {
  const JsonValue* value = find(key);
  if (value == nullptr || value->is_null()) return true;
  if (const bool* flag = value->boolean()) return !*flag;
  if (const std::string* text = value->text()) return text->empty();
  if (value->array() != nullptr) return value->array()->empty();
  if (value->object() != nullptr) return value->object()->empty();
  const double number = *to_double(*value);
  return number == 0 || (number == 1 && (one_is_plain || std::holds_alternative<double>(value->data)));
}

std::string JsonObject::path(std::string_view key) const { return path_ + shortened(key); }

std::string JsonObject::found(std::string_view key) const { return describe(find(key)); }

void JsonObject::fail(std::string_view key, std::string_view expected) const { fail(key, find(key), expected); }

void JsonObject::fail(std::string_view key, const JsonValue* found, std::string_view expected) const {
  throw Error(code_,
              fmt::format("{}: {}{} is {}, expected {}", name_, path_, shortened(key), describe(found), expected));
}

}  // namespace skim

// Strict JSON, and objects whose fields are checked as they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "skim/error.hpp"

namespace skim {

/// A value of a JSON document. Destroying one never allocates, unlike those of the library that parses.
struct JsonValue {
  using Array = std::vector<JsonValue>;
  using Object = std::map<std::string, JsonValue, std::less<>>;

  /// Integers are std::int64_t, or std::uint64_t from 2^63 on; numbers with a fraction or an exponent are double.
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> data;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(data); }
  /// The value as one of those types, or null if it is another.
  const bool* boolean() const { return std::get_if<bool>(&data); }
  const std::string* text() const { return std::get_if<std::string>(&data); }
  const Array* array() const { return std::get_if<Array>(&data); }
  const Object* object() const { return std::get_if<Object>(&data); }
  friend bool operator==(const JsonValue&, const JsonValue&) = default;
};

/// Deepest nesting that parse_json accepts: real headers and configurations stay below 5.
inline constexpr std::size_t kMaxJsonDepth = 64;

/// Parses one JSON document. Throws Error(code) on one line with `name` and, for syntax, the offset in bytes: on a
/// syntax error, invalid UTF-8, anything behind the document, a key used twice in one object, nesting beyond
/// kMaxJsonDepth and numbers that a double cannot hold.
JsonValue parse_json(std::string_view text, const std::string& name, ErrorCode code);

/// `text` as a JSON string, quotes included. Throws Error{invalid_argument} if it is not valid UTF-8.
std::string json_string(std::string_view text);

/// A JSON object whose fields are checked when they are asked for. Every accessor throws Error(code) with the name, the
/// key, what was found and what was expected; a field that is null counts as absent. Refers to `value`, which must
/// outlive it.
class JsonObject {
 public:
  /// `name` starts every message, e.g. "config.json". Throws if `value` is not an object.
  JsonObject(const JsonValue& value, std::string name, ErrorCode code);

  /// All fields by name.
  const JsonValue::Object& fields() const { return *fields_; }
  /// Whether the field is there and not null.
  bool has(std::string_view key) const;
  /// Whether the field is there, if only as null.
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  /// A JSON integer, or a float without fraction such as 10000.0, in [low, high].
  std::int64_t integer(std::string_view key, std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;
  /// Any JSON number in [low, high]; always finite.
  double number(std::string_view key, double low = std::numeric_limits<double>::lowest(),
                double high = std::numeric_limits<double>::max()) const;
  bool boolean(std::string_view key) const;
  std::string text(std::string_view key) const;
  /// A list of integers, each as in integer().
  std::vector<int> integers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  /// A list of JSON integers from 0 to 2^63 - 1; floats are refused even without fraction.
  std::vector<std::int64_t> sizes(std::string_view key) const;
  /// The object under `key`; its messages name the whole path, e.g. "text_config.rope_scaling.factor".
  JsonObject object(std::string_view key) const;

  /// Whether a field has the value that `json` spells, or that of another field. Numbers count: 1 equals 1.0.
  bool equals(std::string_view key, std::string_view json) const;
  bool same(std::string_view key, const JsonObject& other, std::string_view other_key) const;
  /// Whether a field leaves everything as it is: null, false, 0, 1.0, an empty text, list or object. An integer 1 may
  /// be a factor or a switch: it says nothing only if `one_is_plain`.
  bool says_nothing(std::string_view key, bool one_is_plain) const;

  /// `key` with the path of this object before it, and what is found there: for messages.
  std::string path(std::string_view key) const;
  std::string found(std::string_view key) const;
  /// Throws "<name>: <path>.<key> is <found>, expected <expected>".
  [[noreturn]] void fail(std::string_view key, std::string_view expected) const;

 private:
  const JsonValue* find(std::string_view key) const;
  const JsonValue::Array& array(std::string_view key, std::string_view expected) const;
  [[noreturn]] void fail(std::string_view key, const JsonValue* found, std::string_view expected) const;

  const JsonValue::Object* fields_;
  std::string name_;
  std::string path_;  ///< Of this object within the document, with a trailing dot if not empty.
  ErrorCode code_;
};

}  // namespace skim

#include "files/json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

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
  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    const auto [entry, added] = open_.back()->get_ref<json::object_t&>().emplace(std::move(key), nullptr);
    if (!added) fail(fmt::format("key '{}' appears twice in one object", shortened(entry->first)));
    slot_ = &entry->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    fail(fmt::format("not valid JSON at byte {}: {}", position, syntax_reason(error.what())));
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { throw Error(code_, fmt::format("{}: {}", name_, reason)); }

  json* place(json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*slot_ = std::move(value));
    auto& list = open_.back()->get_ref<json::array_t&>();
    list.push_back(std::move(value));
    return &list.back();
  }
  bool add(json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(json&& container) {
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
  json root_;
  json* slot_ = nullptr;  ///< Where the value of the last key goes.
  std::vector<json*> open_;
};

std::string describe(const json* value) {
  if (value == nullptr) return "missing";
  if (value->is_string()) return fmt::format("\"{}\"", shortened(value->get_ref<const std::string&>()));
  if (value->is_object()) return "an object";
  if (value->is_array()) return fmt::format("an array of {}", value->size());
  return value->dump();
}

/// Nothing if the value is not a number, has a fraction or does not fit.
std::optional<std::int64_t> to_integer(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (!std::in_range<std::int64_t>(number)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double kTwo63 = 9223372036854775808.0;
  if (!(number >= -kTwo63 && number < kTwo63) || std::trunc(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
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

json parse_json(std::string_view text, const std::string& name, ErrorCode code) {
  // The parser takes a NUL for the end of the text, whatever follows; JSON itself never contains one.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw Error(code, fmt::format("{}: not valid JSON at byte {}: a NUL byte", name, nul + 1));
  }
  DocumentBuilder builder(name, code);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool continues = (byte & 0xC0u) == 0x80u;
    if (i >= kMost && !continues) return result + "...";
    if (byte < 0x20 || byte == 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += text[i];
    }
  }
  return result;
}

JsonObject::JsonObject(const nlohmann::json& value, std::string name, ErrorCode code)
    : value_(&value), name_(std::move(name)), code_(code) {
  if (!value.is_object()) throw Error(code, fmt::format("{} is {}, expected an object", name_, describe(&value)));
}

const json* JsonObject::find(std::string_view key) const {
  const auto& fields = value_->get_ref<const json::object_t&>();
  const auto field = fields.find(key);
  return field == fields.end() ? nullptr : &field->second;
}

bool JsonObject::has(std::string_view key) const {
  const json* value = find(key);
  return value != nullptr && !value->is_null();
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  const json* value = find(key);
  const std::optional<std::int64_t> number = value == nullptr ? std::nullopt : to_integer(*value);
  if (!number || *number < low || *number > high) fail(key, value, range_text(low, high));
  return *number;
}

double JsonObject::number(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr || !value->is_number()) fail(key, value, "a number");
  const double number = value->get<double>();
  if (!std::isfinite(number)) fail(key, value, "a finite number");
  return number;
}

bool JsonObject::boolean(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr || !value->is_boolean()) fail(key, value, "true or false");
  return value->get<bool>();
}

std::string JsonObject::text(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr || !value->is_string()) fail(key, value, "a string");
  return value->get<std::string>();
}

const json& JsonObject::array(std::string_view key, std::string_view expected) const {
  const json* value = find(key);
  if (value == nullptr || !value->is_array()) fail(key, value, expected);
  return *value;
}

std::vector<int> JsonObject::integers(std::string_view key) const {
  const json& list = array(key, "a list of integers");
  std::vector<int> result;
  result.reserve(list.size());
  for (const json& element : list) {
    const std::optional<std::int64_t> number = to_integer(element);
    if (!number || !std::in_range<int>(*number)) {
      fail(fmt::format("{}[{}]", key, result.size()), &element, "an integer of 32 bits");
    }
    result.push_back(static_cast<int>(*number));
  }
  return result;
}

std::vector<std::int64_t> JsonObject::sizes(std::string_view key) const {
  const json& list = array(key, "a list of non-negative integers");
  std::vector<std::int64_t> result;
  result.reserve(list.size());
  for (const json& element : list) {
    const std::optional<std::int64_t> number = to_integer(element);
    if (!element.is_number_integer() || !number || *number < 0) {
      fail(fmt::format("{}[{}]", key, result.size()), &element, "an integer from 0 to 2^63 - 1");
    }
    result.push_back(*number);
  }
  return result;
}

JsonObject JsonObject::object(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr || !value->is_object()) fail(key, value, "an object");
  JsonObject result(*value, name_, code_);
  result.path_ = fmt::format("{}{}.", path_, key);
  return result;
}

void JsonObject::fail(std::string_view key, std::string_view expected) const { fail(key, find(key), expected); }

void JsonObject::fail(std::string_view key, const json* found, std::string_view expected) const {
  throw Error(code_,
              fmt::format("{}: {}{} is {}, expected {}", name_, path_, shortened(key), describe(found), expected));
}

}  // namespace skim

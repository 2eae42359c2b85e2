#include "verify/case_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace skim {
namespace {

/// Digits at the front of `text`, which then loses them; nothing if there are none or too many.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take_text(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

/// Edits (one character more, less or other) that turn one text into the other.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string case_tensor_name(std::int64_t call, int layer, std::string_view what) {
  return fmt::format("call.{}.layer.{}.{}", call, layer, what);
}

std::optional<CaseTensorName> parse_case_tensor_name(std::string_view name) {
  if (!take_text(name, "call.")) return {};
  const std::optional<int> call = take_number(name);
  if (!call || !take_text(name, ".layer.")) return {};
  const std::optional<int> layer = take_number(name);
  if (!layer || !take_text(name, ".")) return {};
  return CaseTensorName{*call, *layer, std::string(name)};
}

std::optional<std::int64_t> call_of_rows_name(std::string_view name) {
  if (!take_text(name, "call.")) return {};
  const std::optional<int> call = take_number(name);
  if (!call || name != ".rows") return {};
  return *call;
}

bool is_passed_over(std::string_view what) {
  if (what.starts_with("x_")) return true;
  return take_text(what, "rank.") && take_number(what) && what.starts_with(".");
}

std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& names) {
  return *std::min_element(names.begin(), names.end(), [&](std::string_view a, std::string_view b) {
    return edit_distance(name, a) < edit_distance(name, b);
  });
}

}  // namespace skim

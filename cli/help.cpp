#include "help.hpp"

namespace skim::cli {
namespace {

constexpr std::size_t kWidth = 100, kColumn = 30;

/// Where the rest of a broken line goes.
std::size_t hanging_indent(std::string_view line, std::size_t column) {
  const std::size_t start = line.find_first_not_of(' ');
  const bool beside_an_option = start > 0 && line.size() > column && line[column - 1] == ' ' && line[column] != ' ';
  return beside_an_option ? column : start;
}

void append_wrapped(std::string& text, std::string line, std::size_t width, std::size_t column) {
  while (line.size() > width) {
    const std::size_t indent = hanging_indent(line, column);
    std::size_t end = line.rfind(' ', width);
    if (end == std::string::npos || end <= indent) end = line.find(' ', width);
    if (end == std::string::npos) break;
    text.append(line, 0, end).append("\n");
    line.replace(0, end + 1, indent, ' ');
  }
  text.append(line).append("\n");
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t column) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    append_wrapped(result, std::string(text.substr(0, end)), width, column);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return result;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  return wrapped(CLI::Formatter::make_help(app, std::move(name), mode), kWidth, kColumn);
}

}  // namespace skim::cli

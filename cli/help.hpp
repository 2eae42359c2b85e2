// How help is laid out.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace skim::cli {

/// Breaks lines longer than `width` at blanks. What is broken off goes under the text beside an option, which begins at
/// `column`, or under the beginning of its line. A word longer than the room for it stays whole.
std::string wrapped(std::string_view text, std::size_t width, std::size_t column);

/// Help of 100 columns; descriptions of options begin at the 31st.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace skim::cli

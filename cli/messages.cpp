#include "messages.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace skim::cli {

std::string printable(std::string_view text) {
  std::string clean(text);
  std::replace_if(
      clean.begin(), clean.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  return clean;
}

void print_error(std::string_view message) { fmt::print(stderr, "skim: {}\n", printable(message)); }

}  // namespace skim::cli

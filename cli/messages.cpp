#include "messages.hpp"

#include <fmt/core.h>

#include "skim/error.hpp"

namespace skim::cli {

void print_error(std::string_view message) { fmt::print(stderr, "skim: {}\n", printable(message)); }

}  // namespace skim::cli

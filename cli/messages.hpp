// Text for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace skim::cli {

/// Names and values from files may hold anything: control characters become '?'.
std::string printable(std::string_view text);

/// "skim: <message>" on one line of standard error.
void print_error(std::string_view message);

}  // namespace skim::cli

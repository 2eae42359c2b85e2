// Text for a terminal.
#pragma once

#include <string_view>

namespace skim::cli {

/// "skim: <message>" on one line of standard error.
void print_error(std::string_view message);

}  // namespace skim::cli

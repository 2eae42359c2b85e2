// Files that a command writes when it is done.
#pragma once

#include <string>

namespace skim::cli {

/// Better now than after an hour of computing: throws Error{io} if `output` cannot become a regular file. It may be
/// empty.
void check_output(const std::string& output);

/// Throws Error{io}.
void write_text(const std::string& file, const std::string& text);

}  // namespace skim::cli

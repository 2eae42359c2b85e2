// The recorded cases in tests/cases/.
#pragma once

#include <string>

namespace skim::test {

/// Where the case of this name lies, e.g. "v41-tiny-bf16".
std::string case_path(const std::string& name);

}  // namespace skim::test

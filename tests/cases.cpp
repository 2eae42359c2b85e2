#include "cases.hpp"

namespace skim::test {

// SKIM_TEST_CASES is defined for this file only: a path in the command line of every test would keep compiler caches
// from finding what another checkout compiled.
std::string case_path(const std::string& name) { return SKIM_TEST_CASES "/" + name + ".safetensors"; }

}  // namespace skim::test

// An operator new that refuses on demand. Linking refuser.cpp replaces the standard one in the whole process.
#pragma once

#include <cstdint>

namespace skim::test {

/// Counts allocations of the calling thread while it is on, and refuses one of them.
struct Refuser {
  bool on = false;
  std::int64_t left = 0;  ///< Allocations before the one that is refused.
  bool refused = false;

  bool refuses() {
    if (!on || refused) return false;
    refused = left-- == 0;
    return refused;
  }
};

extern thread_local Refuser refuser;

}  // namespace skim::test

// Turning a refused allocation of the standard library into the library's own exception.
#pragma once

#include <new>
#include <string>
#include <string_view>

#include "skim/error.hpp"

namespace skim {

/// function(), with std::bad_alloc as Error{out_of_memory}. `doing` starts the message.
template <class Function>
auto or_out_of_memory(std::string_view doing, Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, std::string(doing) + ": out of memory");
  }
}

}  // namespace skim

// Turning a refused allocation of the standard library into the library's own exception.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "skim/error.hpp"

namespace skim {

/// function(), with std::bad_alloc and std::length_error as Error{out_of_memory}. `doing` starts the message.
template <class Function>
auto or_out_of_memory(std::string_view doing, Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, std::string(doing) + ": out of memory");
  } catch (const std::length_error&) {
    throw Error(ErrorCode::out_of_memory, std::string(doing) + ": more elements than memory can hold");
  }
}

}  // namespace skim

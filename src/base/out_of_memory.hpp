// Turning a refused allocation of the standard library into the library's own exception.
#pragma once

#include <new>
#include <stdexcept>
#include <string_view>

#include "skim/error.hpp"

namespace skim {

/// Throws Error{out_of_memory} with "<doing>: <what>", or a shorter message if there is no memory for that either.
[[noreturn]] void throw_out_of_memory(std::string_view doing, std::string_view what);

/// function(), with std::bad_alloc and std::length_error as Error{out_of_memory}. `doing` starts the message; it is
/// made before anything is caught, so it must not allocate: pass a literal, or a path's native().
template <class Function>
decltype(auto) or_out_of_memory(std::string_view doing, Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    throw_out_of_memory(doing, "out of memory");
  } catch (const std::length_error&) {
    throw_out_of_memory(doing, "more elements than memory can hold");
  }
}

/// Runs what only saves memory; without memory it is left undone.
template <class Function>
void or_nothing(Function function) {
  try {
    function();
  } catch (const std::bad_alloc&) {
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
  }
}

}  // namespace skim

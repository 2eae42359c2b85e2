#include "base/out_of_memory.hpp"

#include <string>

#include "skim/error.hpp"

namespace skim {
namespace {

/// Made when the program starts: a copy of it needs no memory.
const Error out_of_memory_error(ErrorCode::out_of_memory, "out of memory");

}  // namespace

void throw_out_of_memory(std::string_view doing, std::string_view what) {
  try {
    throw Error(ErrorCode::out_of_memory, std::string(doing) + ": " + std::string(what));
  } catch (const std::bad_alloc&) {
    throw Error(out_of_memory_error);
  }
}

}  // namespace skim

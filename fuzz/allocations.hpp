// Counts the bytes that operator new has handed out and not got back, in the whole process.
#pragma once

#include <cstddef>

namespace fuzz {

/// From now on `exceeded` is called (and must not return) if more than `bytes` are live in addition to those now.
void limit_allocations(std::size_t bytes, void (*exceeded)());

/// No limit until the next limit_allocations.
void lift_allocation_limit();

}  // namespace fuzz

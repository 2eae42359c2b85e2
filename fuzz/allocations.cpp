#include "allocations.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr std::int64_t kNoLimit = INT64_MAX;

std::atomic<std::int64_t> live_bytes = 0;
std::atomic<std::int64_t> most_bytes = kNoLimit;
std::atomic<void (*)()> on_exceeded = nullptr;

/// Before the allocation, so that an absurd request fails here and not in malloc.
void check(std::size_t size) {
  const std::int64_t most = most_bytes;
  if (most == kNoLimit) return;
  const std::int64_t left = most - live_bytes;
  if (left < 0 || size > static_cast<std::size_t>(left)) {
    most_bytes = kNoLimit;
    on_exceeded.load()();
  }
}

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  live_bytes += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  live_bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// The array and nothrow forms of the standard library call these. Memory comes from malloc, which sanitizers watch.
void* operator new(std::size_t size) {
  check(size);
  return counted(std::malloc(size == 0 ? 1 : size));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  check(size);
  void* memory = nullptr;
  const int error = posix_memalign(&memory, static_cast<std::size_t>(alignment), size);
  return counted(error == 0 ? memory : nullptr);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace fuzz {

void limit_allocations(std::size_t bytes, void (*exceeded)()) {
  on_exceeded = exceeded;
  most_bytes = live_bytes + static_cast<std::int64_t>(bytes);
}

void lift_allocation_limit() { most_bytes = kNoLimit; }

}  // namespace fuzz

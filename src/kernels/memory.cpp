#include "kernels/memory.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <new>

#include "skim/error.hpp"

namespace skim {
namespace {

constexpr std::align_val_t kAlignment{64};

class HostMemory final : public Memory {
 public:
  std::byte* allocate(std::int64_t bytes) override {
    void* block = ::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow);
    if (block == nullptr) throw Error(ErrorCode::out_of_memory, fmt::format("out of memory: {} bytes refused", bytes));
    return static_cast<std::byte*>(block);
  }
  void release(std::byte* block, std::int64_t) noexcept override { ::operator delete(block, kAlignment); }
};

}  // namespace

Memory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace skim

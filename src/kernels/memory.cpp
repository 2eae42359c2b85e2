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

Buffer::Buffer(Memory& memory, std::int64_t bytes) : memory_(&memory), data_(memory.allocate(bytes)), bytes_(bytes) {}
Buffer::~Buffer() { reset(); }
Buffer::Buffer(Buffer&& other) noexcept { swap(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  reset();
  swap(other);
  return *this;
}

void Buffer::reset() noexcept {
  if (data_ != nullptr) memory_->release(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

}  // namespace skim

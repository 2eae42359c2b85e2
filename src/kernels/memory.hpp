// Where weights and caches live. Each kernel set brings its own Memory, so that a device set can place them there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace skim {

/// Allocator of one kernel set. Blocks are aligned to 64 bytes and not cleared.
class Memory {
 public:
  virtual ~Memory() = default;
  /// Throws Error{out_of_memory} with the number of bytes.
  virtual std::byte* allocate(std::int64_t bytes) = 0;
  virtual void release(std::byte* block, std::int64_t bytes) noexcept = 0;
};

/// Ordinary main memory.
Memory& host_memory();

/// A block that its owner gives back to the Memory it came from.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Memory& memory, std::int64_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  void reset() noexcept;

 private:
  void swap(Buffer& other) noexcept;

  Memory* memory_ = nullptr;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace skim

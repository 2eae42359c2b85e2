// What every operation gets first: threads, and scratch memory that is reused from call to call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/memory.hpp"
#include "skim/tensor.hpp"

namespace skim {

/// Stack-like scratch memory. Blocks taken inside a Scope are given back when it ends; once it has grown to what a
/// layer needs, nothing is allocated any more.
class Arena {
 public:
  /// `count` uninitialized elements, aligned to 64 bytes.
  template <class T>
  T* take(std::int64_t count) {
    return reinterpret_cast<T*>(take_bytes(count * static_cast<std::int64_t>(sizeof(T))));
  }
  /// A row-major tensor without gaps.
  template <class T, int Rank>
  View<T, Rank> tensor(std::array<std::int64_t, Rank> shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return {take<T>(count), shape};
  }
  std::int64_t bytes() const;

  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), block_(arena.block_), used_(arena.used_) {}
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::size_t block_;
    std::int64_t used_;
  };

 private:
  std::byte* take_bytes(std::int64_t bytes);
  void rewind(std::size_t block, std::int64_t used);

  std::vector<Buffer> blocks_;
  std::size_t block_ = 0;  // the block that is being filled
  std::int64_t used_ = 0;  // bytes taken from it
};

/// Threads and scratch of one caller. Not shared between calls that run at the same time.
class Context {
 public:
  /// `threads` 0 means one per processor available to this process.
  explicit Context(int threads);

  int threads() const { return threads_; }
  Arena& arena() { return arena_; }
  /// Makes `bytes` of scratch available to each thread; call before a parallel region, which must not throw.
  void reserve_thread_scratch(std::int64_t bytes);
  /// Scratch of thread `index`, at least as large as reserved, aligned to 64 bytes.
  template <class T>
  T* thread_scratch(int index) const {
    return thread_scratch_[static_cast<std::size_t>(index)].as<T>();
  }
  std::int64_t scratch_bytes() const;

 private:
  int threads_;
  Arena arena_;
  std::vector<Buffer> thread_scratch_;
};

}  // namespace skim

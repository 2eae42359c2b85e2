// Scratch memory of one task, cut into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skim::simd {
namespace {

/// Hands out pieces of `memory` that begin at multiples of 64 bytes. From null it only counts.
class ScratchPieces {
 public:
  explicit ScratchPieces(std::byte* memory) : memory_(memory) {}

  /// Uninitialized.
  template <class T>
  T* take(std::int64_t count) {
    T* const piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    return piece;
  }
  /// Taken so far.
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::int64_t bytes_ = 0;
};

}  // namespace
}  // namespace skim::simd

// Inside of KvCache: the sequences, the limits, and contexts for batches to run in.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cache/layout.hpp"
#include "cache/sequence.hpp"
#include "cache/sequence_file.hpp"
#include "kernels/context.hpp"
#include "skim/cache.hpp"

namespace skim {

/// Passes on to another Memory and counts what is out.
class CountedMemory final : public Memory {
 public:
  explicit CountedMemory(Memory& memory) : memory_(memory) {}
  std::byte* allocate(std::int64_t bytes) override {
    std::byte* block = memory_.allocate(bytes);
    bytes_ += bytes;
    return block;
  }
  void release(std::byte* block, std::int64_t bytes) noexcept override {
    memory_.release(block, bytes);
    bytes_ -= bytes;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  Memory& memory_;
  std::atomic<std::int64_t> bytes_ = 0;
};

/// Throws Error{invalid_argument} naming an option that is out of range.
void check_options(const CacheOptions& options);

struct KvCache::Impl {
  std::shared_ptr<const CacheLayout> layout;  ///< Shared with the model, which tells its batches by it.
  CacheOptions options;
  CountedMemory memory;  ///< Of everything that sequences hold. Outlives them.
  std::map<std::int64_t, Sequence> sequences;
  std::int64_t next_id = 0;
  std::vector<std::unique_ptr<Context>> idle;  ///< Contexts no batch is using: scratch survives from batch to batch.
  std::vector<const Context*> contexts;        ///< All contexts there are.
  std::set<const Batch::Impl*> batches;        ///< Open or committed, not yet destroyed.

  Impl(std::shared_ptr<const CacheLayout> cache_layout, const CacheOptions& cache_options);
  Sequence& find(SequenceId id);
  /// The same, of a sequence that is not in a batch. Throws Error{wrong_order} too.
  Sequence& find_idle(SequenceId id);
  /// Throws Error{limit_exceeded} if one more sequence, or `bytes` more, would be too much.
  void check_room_for_sequence() const;
  void check_room_for_bytes(std::int64_t bytes) const;
  SequenceId insert(Sequence sequence);
  RingLimits ring_limits() const { return {options.max_tokens, options.rollback}; }
  SequenceFormat sequence_format() const { return {*layout, ring_limits(), options.page_rows}; }
  std::unique_ptr<Context> borrow_context();
  void return_context(std::unique_ptr<Context> context) noexcept;
};

}  // namespace skim

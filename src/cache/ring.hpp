// Rows of the last tokens of a sequence: sliding windows, and what tokens of an unfinished group wait with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "formats/packed_rows.hpp"
#include "kernels/memory.hpp"

namespace skim {

/// Most that CacheOptions::rollback can be.
inline constexpr std::int64_t kMostRollback = 1 << 24;

/// What bounds the rings of a sequence.
struct RingLimits {
  std::int64_t max_tokens = 0;  ///< Longest sequence.
  std::int64_t rollback = 0;    ///< Tokens that can be taken back.
};

/// A kind of rows of which only those of the last tokens are kept, one per token. Before a token at position n can run
/// it needs those of the `recent` tokens before it, and those since n - n mod period, where its group began:
///
///   window of w rows            recent w - 1, period 1
///   groups of r tokens          recent 0, period r
///   groups that overlap by o    recent o, period r
///
/// The invariant of all that follows: a ring has `kept` + rollback slots, kept >= recent + period - 1. So wherever
/// within the rollback a sequence ends, the ring has what its next token needs.
struct RingLayout {
  std::string_view name;  ///< In saved sequences: layer.<i>.<name>.
  std::int64_t row_bytes = 0;
  RowLayout row;  ///< Of packed rows; of no width if rows are floats.
  std::int64_t recent = 0, period = 1;
  std::int64_t kept = 0;
  std::size_t index = 0;  ///< Among all rings of the cache.

  /// Rows that the next token of a sequence of `length` tokens needs.
  std::int64_t needs(std::int64_t length) const { return std::min(length, recent + length % period); }
  /// Slots that a ring has at last. One is never longer than the sequence.
  std::int64_t most_slots(const RingLimits& limits) const {
    return std::min(kept + limits.rollback, limits.max_tokens);
  }
  /// New rows that commit may ask for: a whole ring, wherever within the rollback the accepted tokens end.
  std::int64_t most_staged(const RingLimits& limits) const { return most_slots(limits) + limits.rollback; }
};

/// New rows of one ring that are not committed yet: those of positions from `first` on, one behind the other.
struct StagedRows {
  std::byte* data = nullptr;
  std::int64_t first = 0;
  std::int64_t row_bytes = 0;

  std::byte* row(std::int64_t position) const { return data + (position - first) * row_bytes; }
};

/// The row of position p is in slot p mod slots(). Slots come with use: a power of two that holds the whole sequence,
/// until there are as many as there may be. A copy shares the rows; the first of both that goes on takes rows of its
/// own, as pages do.
class Ring {
 public:
  Ring(Memory& memory, std::int64_t row_bytes, std::int64_t most_slots)
      : memory_(&memory), row_bytes_(row_bytes), most_slots_(most_slots) {}

  std::int64_t slots() const { return slots_; }
  std::int64_t row_bytes() const { return row_bytes_; }
  /// Positions [first(), length of the sequence) are held.
  std::int64_t first() const { return first_; }
  bool holds(std::int64_t position) const { return position >= first_; }
  /// Slot 0; null without slots.
  std::byte* data() const { return rows_ != nullptr ? rows_->data() : nullptr; }
  std::byte* row(std::int64_t position) const { return data() + position % slots_ * row_bytes_; }

  /// Slots for a sequence that was never longer than `tokens`.
  std::int64_t slots_for(std::int64_t tokens) const;
  /// Length up to which a sequence needs no more memory for this ring.
  std::int64_t room() const;
  /// Bytes that grow(tokens) allocates.
  std::int64_t bytes_to_grow(std::int64_t tokens) const;
  /// Makes room for a sequence of `tokens` tokens, which commit will use. Throws Error{out_of_memory}; then nothing has
  /// changed.
  void grow(std::int64_t tokens);
  /// Puts new rows of positions [start, end) into their slots, as many as there are slots.
  void commit(std::int64_t start, std::int64_t end, const StagedRows& staged);
  /// Gives back the room that grow made and commit did not use.
  void settle() { grown_.reset(); }
  /// Forgets the rows from position `length` on.
  void truncate(std::int64_t length);
  /// Becomes the ring of a sequence of `length` tokens with these last rows, or as many of them as it has slots.
  /// Throws Error{out_of_memory}.
  void restore(std::int64_t length, std::span<const std::byte> rows);

 private:
  std::shared_ptr<Buffer> new_rows(std::int64_t slots) const;
  bool must_move(std::int64_t tokens) const;

  Memory* memory_;
  std::int64_t row_bytes_, most_slots_;
  std::int64_t slots_ = 0;
  std::int64_t first_ = 0;
  std::shared_ptr<Buffer> rows_;   // [slots_] rows; shared with copies
  std::shared_ptr<Buffer> grown_;  // between grow and settle: where commit moves the rows first
  std::int64_t grown_slots_ = 0;
};

}  // namespace skim

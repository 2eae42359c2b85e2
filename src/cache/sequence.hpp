// Everything kept of one sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/layout.hpp"
#include "skim/cache.hpp"

namespace skim {

/// A copy shares all rows.
struct Sequence {
  std::int64_t length = 0;  ///< Committed tokens.
  bool in_batch = false;
  std::vector<PageTable> tables;  ///< By TableLayout::index.
  std::vector<Ring> rings;        ///< By RingLayout::index.

  /// `memory` is where its rows will live.
  Sequence(const CacheLayout& layout, Memory& memory, std::int64_t page_rows, const RingLimits& limits);

  /// Bytes that grow(layout, tokens) allocates.
  std::int64_t bytes_to_grow(const CacheLayout& layout, std::int64_t tokens) const;
  /// Makes room for `tokens` tokens in all. Throws Error{out_of_memory}, then some of it may have been made; settle
  /// gives it back.
  void grow(const CacheLayout& layout, std::int64_t tokens);
  /// Ends a grow: keeps what `length` tokens need. If that is what it was before, everything is.
  void settle(const CacheLayout& layout);

  /// Whether its state at an earlier length is still there.
  bool can_restore(const CacheLayout& layout, std::int64_t earlier) const;
  /// All such lengths, ascending.
  std::vector<LengthRange> restorable(const CacheLayout& layout) const;
  /// A sequence that shares the rows of the first `tokens` tokens, which can be restored.
  Sequence fork(const CacheLayout& layout, std::int64_t tokens);
  /// Forgets the tokens behind `tokens`, which can be restored.
  void truncate(const CacheLayout& layout, std::int64_t tokens);

 private:
  bool has_room(std::int64_t tokens) const { return tokens <= room_; }
  std::int64_t find_room(const CacheLayout& layout) const;
  std::int64_t lowest_restorable(const CacheLayout& layout) const;

  std::int64_t room_ = 0;  // tokens for which nothing need be allocated: most batches look no further
  bool grown_ = false;     // between grow and settle
};

}  // namespace skim

// Everything kept of one sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/layout.hpp"
#include "cache/pages.hpp"
#include "skim/cache.hpp"

namespace skim {

/// State of one layer of one sequence.
struct LayerCache {
  Buffer ring;  ///< [ring_rows] packed window rows, position p in slot p mod ring_rows.
  std::int64_t ring_rows = 0;
  PageTable compressed;  ///< Row j: tokens [j * ratio, (j + 1) * ratio).
  PageTable keys;        ///< Index key of the same group.
  Buffer open;           ///< [open_rows, open_floats]: what tokens wait with until their group closes, as the ring.
  std::int64_t open_rows = 0;
};

struct Sequence {
  std::int64_t length = 0;   ///< Committed tokens.
  std::int64_t reached = 0;  ///< Length that rings were last written for: they hold nothing older than that allows.
  bool in_batch = false;
  std::vector<LayerCache> layers;  ///< As CacheLayout::layers.

  /// `memory` is where its rows will live.
  Sequence(const CacheLayout& layout, Memory& memory, std::int64_t page_rows, const RingLimits& limits);

  /// Bytes of its rings, which a fork copies.
  std::int64_t ring_bytes() const;
  /// Bytes that grow(layout, tokens) allocates.
  std::int64_t bytes_to_grow(const CacheLayout& layout, std::int64_t tokens) const;
  /// Makes room for `tokens` tokens in all. Throws Error{out_of_memory}, then some of it may have been made; settle
  /// gives it back.
  void grow(const CacheLayout& layout, Memory& memory, std::int64_t tokens);
  /// Of the room that grow made keeps what `tokens` tokens need. Does not throw.
  void settle(const CacheLayout& layout, std::int64_t tokens);
  /// Gives up what `tokens` tokens do not need.
  void shrink(const CacheLayout& layout, std::int64_t tokens);

  /// Whether its state at an earlier length is still there.
  bool can_restore(const CacheLayout& layout, std::int64_t earlier) const;
  /// All such lengths, ascending.
  std::vector<LengthRange> restorable(const CacheLayout& layout) const;
  /// A sequence that shares the pages of the first `tokens` tokens, which can be restored.
  Sequence fork(const CacheLayout& layout, Memory& memory, std::int64_t tokens) const;
  /// Forgets the tokens behind `tokens`, which can be restored.
  void truncate(const CacheLayout& layout, std::int64_t tokens);

 private:
  Sequence() = default;
  void drop_rings();
};

}  // namespace skim

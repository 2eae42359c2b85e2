// Everything kept of one sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/layout.hpp"
#include "cache/pages.hpp"

namespace skim {

/// State of one layer of one sequence.
struct LayerCache {
  Buffer ring;  ///< [ring_rows] packed rows, position p in slot p mod ring_rows.
  std::int64_t ring_rows = 0;
  PageTable compressed;  ///< Row j: tokens [j * ratio, (j + 1) * ratio).
  PageTable keys;        ///< Index key of the same group.
  Buffer open;           ///< [ratio - 1, open_floats]: rows of the unfinished group, oldest first.
};

struct Sequence {
  std::int64_t length = 0;  ///< Committed tokens.
  bool in_batch = false;
  std::vector<LayerCache> layers;  ///< As CacheLayout::layers.

  Sequence(const CacheLayout& layout, std::int64_t page_rows, std::int64_t max_tokens);
  /// Bytes it occupies.
  std::int64_t bytes() const;
  /// Bytes that `fit(layout, tokens)` makes it occupy.
  std::int64_t bytes_for(const CacheLayout& layout, std::int64_t tokens) const;
  /// Adds or frees storage so that exactly what `tokens` tokens need remains; nothing for none.
  /// Throws Error{out_of_memory}, then some of it may have been added.
  void fit(const CacheLayout& layout, std::int64_t tokens);
};

}  // namespace skim

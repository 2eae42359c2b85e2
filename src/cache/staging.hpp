// Where a batch keeps new rows of rings until they are committed: early queries of the batch may still need the rows
// whose slots they will take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/layout.hpp"

namespace skim {

/// Tokens that go through a layer together, at most. More do not make any kernel faster.
inline constexpr std::int64_t kMostTileRows = 256;

/// Tokens that a batch adds to a sequence of `start` tokens.
struct NewTokens {
  std::int64_t start = 0, count = 0;
};

/// New rows of every ring of every sequence of a batch: all of them, or the latest ones that commit and further tiles
/// need. One block, ring by ring.
class Staging {
 public:
  Staging() = default;
  /// Throws Error{out_of_memory}.
  Staging(const CacheLayout& layout, const RingLimits& limits, const std::vector<NewTokens>& sequences);

  /// Bytes that a Staging of these takes.
  static std::int64_t bytes_for(const CacheLayout& layout, const RingLimits& limits,
                                const std::vector<NewTokens>& sequences);

  std::int64_t bytes() const { return memory_.bytes(); }
  /// Forgets what was staged for a layer, which runs from its first tile.
  void restart(const LayerLayout& layer);
  /// Room for rows of positions [position, position + count), those behind the ones staged before, at most kMostTileRows.
  std::byte* append(const RingLayout& ring, std::size_t sequence, std::int64_t position, std::int64_t count);
  StagedRows rows(const RingLayout& ring, std::size_t sequence) const;

 private:
  struct Place {
    std::int64_t start = 0;   // first new position
    std::int64_t rows = 0;    // that there is room for
    std::int64_t before = 0;  // rows of sequences before this one
  };

  std::int64_t& first(const RingLayout& ring, std::size_t sequence);

  RingLimits limits_;
  std::vector<Place> places_;          // by sequence
  std::vector<std::int64_t> offsets_;  // of the rows of each ring in memory_
  std::vector<std::int64_t> first_;    // [rings, sequences]: position of the first row that is still there
  Buffer memory_;
};

}  // namespace skim

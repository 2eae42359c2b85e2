// What each layer keeps per sequence. A V3.2 layer is one of ratio 1 without a window: each token has a row of its own,
// its latent and rotated key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_rows.hpp"
#include "kernels/memory.hpp"
#include "skim/config.hpp"

namespace skim {

struct LayerLayout {
  int layer = 0;
  std::int64_t window = 0;  ///< Rows of the sliding window ring.
  RowLayout window_row;
  int ratio = 0;  ///< Tokens per compressed row (V3.2: latent row); 0: the layer owns none.
  RowLayout compressed_row;
  RowLayout key_row;             ///< Index key.
  std::int64_t open_floats = 0;  ///< Floats a token of an unfinished group waits with (kv, then score).

  /// Rows that a sequence of at most `max_tokens` ever needs at a time.
  std::int64_t ring_rows(std::int64_t max_tokens) const { return std::min(window, max_tokens); }
  /// The unfinished group holds at most ratio - 1 tokens.
  std::int64_t open_bytes() const {
    return ratio > 1 ? (ratio - 1) * open_floats * static_cast<std::int64_t>(sizeof(float)) : 0;
  }
};

struct CacheLayout {
  std::vector<LayerLayout> layers;  ///< Ascending by layer.
  Memory* memory = nullptr;

  /// Index in `layers`; the layer is among them.
  std::size_t slot(int layer) const;
};

CacheLayout cache_layout(const Config& config, std::span<const int> layers, Memory& memory);

}  // namespace skim

// What each layer keeps per sequence. A V3.2 layer is one of ratio 1 without a window: each token has a row of its own,
// its latent and rotated key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/packed_rows.hpp"
#include "kernels/memory.hpp"
#include "skim/config.hpp"

namespace skim {

/// Most that CacheOptions::rollback can be.
inline constexpr std::int64_t kMostRollback = 1 << 24;

/// What bounds the rings of a sequence.
struct RingLimits {
  std::int64_t max_tokens = 0;  ///< Longest sequence.
  std::int64_t rollback = 0;    ///< Tokens that can be taken back.
};

struct LayerLayout {
  int layer = 0;
  std::int64_t window = 0;  ///< Rows of the sliding window ring.
  RowLayout window_row;
  int ratio = 0;  ///< Tokens per compressed row (V3.2: latent row); 0: the layer owns none.
  RowLayout compressed_row;
  RowLayout key_row;             ///< Index key; of width 0 if the layer owns none.
  std::int64_t open_floats = 0;  ///< Floats a token of an unfinished group waits with (kv, then score).

  /// Window rows kept: those that the next token sees, and as many more as a sequence may be rolled back.
  std::int64_t ring_rows(const RingLimits& limits) const {
    return window > 0 ? std::min(window + limits.rollback, limits.max_tokens) : 0;
  }
  /// Tokens whose floats are kept: an unfinished group holds at most ratio - 1.
  std::int64_t open_rows(const RingLimits& limits) const { return ratio > 1 ? ratio - 1 + limits.rollback : 0; }
  std::int64_t open_row_bytes() const { return open_floats * static_cast<std::int64_t>(sizeof(float)); }
};

struct CacheLayout {
  std::vector<LayerLayout> layers;  ///< Ascending by layer.
  Memory* memory = nullptr;
  std::string model;             ///< Its model_type.
  std::string fingerprint;       ///< Of configuration, layers and weights: whose rows are these.
  std::int64_t yarn_beyond = 0;  ///< Caches for longer contexts hold other rotations; 0: all the same.

  /// Whether a cache for so many tokens is one of the long contexts.
  bool yarn(std::int64_t max_tokens) const { return yarn_beyond > 0 && max_tokens > yarn_beyond; }
  /// Whether some state is kept of the last tokens only, so that not every earlier length can be restored.
  bool has_rings() const;
  /// Index in `layers`; the layer is among them.
  std::size_t slot(int layer) const;
};

CacheLayout cache_layout(const Config& config, std::span<const int> layers, Memory& memory);

}  // namespace skim

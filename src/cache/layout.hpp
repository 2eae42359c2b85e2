// What each layer keeps per sequence, as data: tables of rows that stay, and rings of the last ones. Nothing else in
// this folder knows a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/pages.hpp"
#include "cache/ring.hpp"
#include "kernels/memory.hpp"
#include "skim/config.hpp"

namespace skim {

// Kinds of rows, by the names that saved sequences have for them. A layer of ratio 1 makes a row of every token.
inline constexpr std::string_view kRows = "rows";      ///< Table of compressed rows; V3.2: latent and rotated key.
inline constexpr std::string_view kKeys = "keys";      ///< Table of index keys.
inline constexpr std::string_view kWindow = "window";  ///< Ring of the rows of the last tokens.
inline constexpr std::string_view kOpen = "open";      ///< Ring of floats that tokens of an unfinished group wait with.

/// A sliding window of `window` packed rows: a token sees its own and window - 1 before it.
RingLayout window_ring(std::int64_t window, RowLayout row);
/// What tokens of groups of `ratio` > 1 wait with, `floats` floats each. `overlap`: tokens before a group that it is
/// made of too.
RingLayout open_ring(int ratio, std::int64_t floats, int overlap = 0, std::string_view name = kOpen);

struct LayerLayout {
  int layer = 0;
  std::vector<TableLayout> tables;
  std::vector<RingLayout> rings;

  /// Null if the layer keeps no such rows.
  const TableLayout* find_table(std::string_view name) const;
  const RingLayout* find_ring(std::string_view name) const;
  /// Of rows that the layer keeps.
  const TableLayout& table(std::string_view name) const { return *find_table(name); }
  const RingLayout& ring(std::string_view name) const { return *find_ring(name); }
};

struct CacheLayout {
  std::vector<LayerLayout> layers;  ///< Ascending by layer.
  std::size_t tables = 0, rings = 0;
  Memory* memory = nullptr;
  std::string model;             ///< Its model_type.
  std::string fingerprint;       ///< Of configuration, layers and weights: whose rows are these.
  std::int64_t yarn_beyond = 0;  ///< Caches for longer contexts hold other rotations; 0: all the same.

  /// Whether a cache for so many tokens is one of the long contexts.
  bool yarn(std::int64_t max_tokens) const { return yarn_beyond > 0 && max_tokens > yarn_beyond; }
  /// Adds a layer behind those there are, and numbers its tables and rings.
  void add(LayerLayout layer);
  /// Whether some state is kept of the last tokens only, so that not every earlier length can be restored.
  bool has_rings() const { return rings > 0; }
  /// Index in `layers`; the layer is among them.
  std::size_t slot(int layer) const;
};

CacheLayout cache_layout(const Config& config, std::span<const int> layers, Memory& memory);

}  // namespace skim

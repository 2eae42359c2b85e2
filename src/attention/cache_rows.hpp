// Rows that enter the pages of their sequences: compressed rows or latents, and index keys.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "attention/layer_call.hpp"

namespace skim {

/// Groups of one sequence that close in a tile; at ratio 1 its tokens.
struct ClosedGroups {
  const TilePiece* piece = nullptr;
  std::int64_t first_row = 0;  ///< In the tile's list of groups.
  std::int64_t first_group = 0;
  std::int64_t count = 0;
};

/// One entry per piece of the tile, which they point into.
std::vector<ClosedGroups> closed_groups(const LayerCall& call, const Tile& tile);

/// Packs rows [groups, width] into the layer's table of this name.
void append_rows(const LayerCall& call, std::string_view table, const std::vector<ClosedGroups>& closed,
                 View<const bf16, 2> rows);

/// The packed row of each closed group.
std::vector<const std::byte*> packed_rows(const LayerCall& call, std::string_view table,
                                          const std::vector<ClosedGroups>& closed);

/// What append_rows stored, [groups, width] in the arena.
View<bf16, 2> stored_rows(const LayerCall& call, std::string_view table, const std::vector<ClosedGroups>& closed);

/// Shows rows [groups, width], sequence by sequence, to a trace that wants them.
void show_groups(const LayerCall& call, std::string_view name, const std::vector<ClosedGroups>& closed,
                 View<const bf16, 2> rows);

/// Shows what append_rows stored to a trace that wants it.
void show_stored(const LayerCall& call, std::string_view name, std::string_view table,
                 const std::vector<ClosedGroups>& closed);

}  // namespace skim

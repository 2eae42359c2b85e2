// Rows that enter the sliding window of their sequences.
#pragma once

#include "attention/layer_call.hpp"

namespace skim {

/// Packs rows [tile.rows, width] behind those that the batch staged before, and shows what was stored as "window_kv".
void append_window(const LayerCall& call, const Tile& tile, View<const bf16, 2> rows);

}  // namespace skim

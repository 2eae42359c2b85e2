// Attention of a tile's queries to the rows that their sequences hold.
#pragma once

#include "attention/layer_call.hpp"

namespace skim {

/// Attends with q [tile.rows, heads * key_width] to the layer's window, if it has one, and then to the rows of its
/// source that were selected for each token, or to all visible ones if the layer takes no selection. out: [tile.rows,
/// heads * value_width]. The layouts in `shape` are filled in here. Returns log_sum [tile.rows, heads] if the trace
/// wants "attention", otherwise nothing.
View<const float, 2> attend_rows(const LayerCall& call, const Tile& tile, AttendShape shape, View<const bf16, 2> q,
                                 View<bf16, 2> out);

/// Shows attention [tile.rows, heads * width], which a trace may replace. `log_sum`: of attend_rows. `sink`: [heads],
/// or null.
void show_attention(const LayerCall& call, const Tile& tile, View<bf16, 2> attention, View<const float, 2> log_sum,
                    const float* sink);

}  // namespace skim

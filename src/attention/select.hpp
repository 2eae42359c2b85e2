// Which positions each query attends to: scores, candidate blocks, top-k.
#pragma once

#include <cstddef>

#include "attention/layer_call.hpp"

namespace skim {

/// How much a query may choose.
struct SelectionLimits {
  int topk = 0;
  int candidate_topk_blocks = 0;  ///< Of a layer that publishes candidate blocks, or chooses within them.
  int candidate_block_size = 1;
};

/// Queries and head weights of a tile, as the score kernel wants them.
struct IndexInput {
  IndexShape shape;
  const std::byte* queries = nullptr;  ///< [rows, heads] packed rows.
  View<float, 2> weights;              ///< [rows, heads]
};

/// Packs queries [rows, heads * width] into the arena.
IndexInput pack_queries(const LayerCall& call, const IndexShape& shape, View<const bf16, 2> queries);

/// Shows what packed queries stand for as "index_q".
void show_index_queries(const LayerCall& call, const Tile& tile, const IndexInput& input);

/// Weights [rows, heads] of index heads of `width` elements, with the scale width^-1/2 heads^-1/2 multiplied in, which
/// the published code of V4 and V4.1 rounds to bf16. Shown as "index_weights". x: [rows, dim]; projection: [heads,
/// dim].
View<float, 2> scaled_head_weights(const LayerCall& call, const Tile& tile, View<const bf16, 2> x,
                                   const Weight& projection, int width);

/// Makes room in the batch for what the layer's queries select. Before the first tile.
void prepare_selection(const LayerCall& call, const SelectionLimits& limits);

/// Scores the keys of the layer's source and publishes candidate blocks and selections of the tile's queries.
void select(const LayerCall& call, const Tile& tile, const IndexInput& input, const SelectionLimits& limits);

}  // namespace skim

// A stretch of a batch's tokens that goes through a layer together.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/batch_impl.hpp"

namespace skim {

/// Rows of a tile that belong to one sequence.
struct TilePiece {
  BatchSequence* sequence = nullptr;
  int index = 0;               ///< Of the sequence in the batch: how a trace knows it.
  std::int64_t first_row = 0;  ///< In the tile.
  std::int64_t rows = 0;
  std::int64_t position = 0;  ///< Of the first row, in its sequence.
};

struct Tile {
  std::int64_t first_token = 0;  ///< In the batch.
  std::int64_t rows = 0;
  std::vector<TilePiece> pieces;
  std::vector<std::int64_t> positions;  ///< [rows]
};

/// Tokens [first, first + count) of the batch.
Tile make_tile(Batch::Impl& batch, std::int64_t first, std::int64_t count);

}  // namespace skim

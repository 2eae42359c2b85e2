#include "attention/tile.hpp"

#include <algorithm>

namespace skim {

Tile make_tile(Batch::Impl& batch, std::int64_t first, std::int64_t count) {
  Tile tile{first, count, {}, {}};
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    BatchSequence& entry = batch.sequences[i];
    const std::int64_t begin = std::max(first, entry.first_token);
    const std::int64_t end = std::min(first + count, entry.first_token + entry.tokens);
    if (begin >= end) continue;
    const std::int64_t position = entry.start + (begin - entry.first_token);
    tile.pieces.push_back({&entry, static_cast<int>(i), begin - first, end - begin, position});
    for (std::int64_t row = 0; row < end - begin; ++row) tile.positions.push_back(position + row);
  }
  return tile;
}

}  // namespace skim

// The keys behind a stretch of an index query's slots.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kernels.hpp"

namespace skim::simd {
namespace {

/// rows[i] = key of slot first + i, or null where its position cannot be seen. Divides once per run of neighbours.
void list_keys(const IndexQuery& query, std::int64_t first, std::int64_t count, const std::byte** rows) {
  const IndexRange& range = query.range;
  const std::int64_t page_rows = query.keys.rows_per_page;
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t slot = first + i, position = range.position(slot);
    std::int64_t run = std::min(count - i, page_rows - position % page_rows);
    if (range.in_blocks) run = std::min(run, range.block_size - slot % range.block_size);
    const std::byte* row = position < range.visible ? query.keys.row(position) : nullptr;
    for (std::int64_t j = 0; j < run; ++j) {
      rows[i + j] = position + j < range.visible ? row + j * query.keys.row_bytes : nullptr;
    }
    i += run;
  }
}

}  // namespace
}  // namespace skim::simd

#include "bench/plant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/access.hpp"
#include "cache/cache_impl.hpp"
#include "skim/error.hpp"

namespace skim::bench {
namespace {

void fill_pages(RandomWords& random, RowLayout layout, PagedRows<std::byte> rows, std::int64_t count) {
  for (std::int64_t first = 0; first < count; first += rows.rows_per_page) {
    random_rows(random, layout, rows.row(first), std::min(rows.rows_per_page, count - first));
  }
}

/// Random rows in the place of those a batch would have staged.
void fill_ring(RandomWords& random, const RingLayout& layout, Ring& ring, std::int64_t tokens) {
  const std::int64_t count = std::min(ring.slots_for(tokens), tokens);
  std::vector<std::byte> rows(static_cast<std::size_t>(count * layout.row_bytes));
  if (layout.row.width > 0) {
    random_rows(random, layout.row, rows.data(), count);
  } else {
    const std::vector<float> floats = random_floats(random, static_cast<std::int64_t>(rows.size() / sizeof(float)));
    std::memcpy(rows.data(), floats.data(), rows.size());
  }
  ring.restore(tokens, rows);
}

void fill(KvCache::Impl& cache, Sequence& sequence, std::int64_t tokens, RandomWords& random) {
  if (tokens == 0) return;
  const CacheLayout& layout = *cache.layout;
  cache.check_room_for_bytes(sequence.bytes_to_grow(layout, tokens));
  sequence.grow(layout, tokens);
  sequence.length = tokens;
  sequence.settle(layout);
  for (const LayerLayout& layer : layout.layers) {
    for (const TableLayout& table : layer.tables) {
      fill_pages(random, table.row, sequence.tables[table.index].rows(), table.rows(tokens));
    }
    for (const RingLayout& ring : layer.rings) fill_ring(random, ring, sequence.rings[ring.index], tokens);
  }
}

}  // namespace

SequenceId plant(KvCache& cache, std::int64_t tokens, RandomWords& random) {
  KvCache::Impl& impl = Access::impl(cache);
  if (tokens > impl.options.max_tokens) {
    throw Error(ErrorCode::limit_exceeded,
                fmt::format("cache: max_tokens is {}, but {} would be planted", impl.options.max_tokens, tokens));
  }
  const SequenceId id = cache.add();
  try {
    fill(impl, impl.find(id), tokens, random);
  } catch (...) {
    cache.remove(id);
    throw;
  }
  return id;
}

}  // namespace skim::bench

#include "bench/plant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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

void fill_layer(RandomWords& random, const LayerLayout& layout, LayerCache& cache, std::int64_t tokens) {
  if (layout.window > 0) random_rows(random, layout.window_row, cache.ring.data(), cache.ring_rows);
  const std::vector<float> open = random_floats(random, cache.open_rows * layout.open_floats);
  if (!open.empty()) std::memcpy(cache.open.data(), open.data(), open.size() * sizeof(float));
  if (layout.ratio == 0) return;
  fill_pages(random, layout.compressed_row, cache.compressed.rows(), tokens / layout.ratio);
  fill_pages(random, layout.key_row, cache.keys.rows(), tokens / layout.ratio);
}

void fill(KvCache::Impl& cache, Sequence& sequence, std::int64_t tokens, RandomWords& random) {
  if (tokens == 0) return;
  const CacheLayout& layout = *cache.layout;
  cache.check_room_for_bytes(sequence.bytes_to_grow(layout, tokens));
  sequence.grow(layout, cache.memory, tokens);
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    fill_layer(random, layout.layers[i], sequence.layers[i], tokens);
  }
  sequence.settle(layout, tokens);
  sequence.length = sequence.reached = tokens;
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

#include "cache/sequence.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace skim {
namespace {

/// Whole groups among this many tokens.
std::int64_t groups(const LayerLayout& layout, std::int64_t tokens) {
  return layout.ratio > 0 ? tokens / layout.ratio : 0;
}

std::int64_t window_bytes(const LayerLayout& layout, const LayerCache& cache) {
  return cache.ring_rows * layout.window_row.bytes();
}

std::int64_t open_bytes(const LayerLayout& layout, const LayerCache& cache) {
  return cache.open_rows * layout.open_row_bytes();
}

Buffer copy(const Buffer& from, Memory& memory) {
  if (from.bytes() == 0) return {};
  Buffer to(memory, from.bytes());
  std::memcpy(to.data(), from.data(), static_cast<std::size_t>(from.bytes()));
  return to;
}

void allocate_once(Buffer& buffer, Memory& memory, std::int64_t bytes) {
  if (buffer.data() == nullptr && bytes > 0) buffer = Buffer(memory, bytes);
}

}  // namespace

Sequence::Sequence(const CacheLayout& layout, Memory& memory, std::int64_t page_rows, const RingLimits& limits) {
  for (const LayerLayout& layer : layout.layers) {
    LayerCache cache;
    cache.ring_rows = layer.ring_rows(limits);
    cache.open_rows = layer.open_rows(limits);
    cache.compressed = PageTable(memory, layer.compressed_row.bytes(), page_rows);
    cache.keys = PageTable(memory, layer.key_row.bytes(), page_rows);
    layers.push_back(std::move(cache));
  }
}

std::int64_t Sequence::ring_bytes() const {
  std::int64_t total = 0;
  for (const LayerCache& layer : layers) total += layer.ring.bytes() + layer.open.bytes();
  return total;
}

std::int64_t Sequence::bytes_to_grow(const CacheLayout& layout, std::int64_t tokens) const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerLayout& layer = layout.layers[i];
    if (layers[i].ring.data() == nullptr) total += window_bytes(layer, layers[i]);
    if (layers[i].open.data() == nullptr) total += open_bytes(layer, layers[i]);
    for (const PageTable* table : {&layers[i].compressed, &layers[i].keys}) {
      total += table->pages_to_grow(groups(layer, length), groups(layer, tokens)) * table->page_bytes();
    }
  }
  return total;
}

void Sequence::grow(const CacheLayout& layout, Memory& memory, std::int64_t tokens) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerLayout& layer = layout.layers[i];
    allocate_once(layers[i].ring, memory, window_bytes(layer, layers[i]));
    allocate_once(layers[i].open, memory, open_bytes(layer, layers[i]));
    layers[i].compressed.grow(groups(layer, length), groups(layer, tokens));
    layers[i].keys.grow(groups(layer, length), groups(layer, tokens));
  }
}

void Sequence::settle(const CacheLayout& layout, std::int64_t tokens) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].compressed.settle(groups(layout.layers[i], tokens));
    layers[i].keys.settle(groups(layout.layers[i], tokens));
  }
  if (tokens == 0) drop_rings();
}

void Sequence::shrink(const CacheLayout& layout, std::int64_t tokens) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].compressed.shrink(groups(layout.layers[i], tokens));
    layers[i].keys.shrink(groups(layout.layers[i], tokens));
  }
  if (tokens == 0) drop_rings();
}

void Sequence::drop_rings() {
  for (LayerCache& layer : layers) {
    layer.ring.reset();
    layer.open.reset();
  }
}

bool Sequence::can_restore(const CacheLayout& layout, std::int64_t earlier) const {
  if (earlier < 0 || earlier > length) return false;
  if (earlier == length || earlier == 0) return true;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerLayout& layer = layout.layers[i];
    // The next token sees its own row and window - 1 before it.
    if (layer.window > 0 && std::max<std::int64_t>(0, earlier - layer.window + 1) < reached - layers[i].ring_rows) {
      return false;
    }
    const std::int64_t waiting = layer.ratio > 1 ? earlier % layer.ratio : 0;
    if (waiting > 0 && earlier - waiting < reached - layers[i].open_rows) return false;
  }
  return true;
}

std::vector<LengthRange> Sequence::restorable(const CacheLayout& layout) const {
  if (!layout.has_rings()) return {{0, length}};
  // No length that is more than a ring behind can be restored, but 0.
  std::int64_t lowest = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layout.layers[i].window > 0) lowest = std::max(lowest, reached - layers[i].ring_rows);
  }
  std::vector<LengthRange> ranges = {{0, 0}};
  for (std::int64_t tokens = std::max<std::int64_t>(1, lowest); tokens <= length; ++tokens) {
    if (!can_restore(layout, tokens)) continue;
    if (ranges.back().last == tokens - 1) {
      ranges.back().last = tokens;
    } else {
      ranges.push_back({tokens, tokens});
    }
  }
  return ranges;
}

Sequence Sequence::fork(const CacheLayout& layout, Memory& memory, std::int64_t tokens) const {
  Sequence child;
  child.length = tokens;
  child.reached = tokens > 0 ? reached : 0;
  for (const LayerCache& layer : layers) {
    child.layers.push_back({copy(layer.ring, memory), layer.ring_rows, layer.compressed, layer.keys,
                            copy(layer.open, memory), layer.open_rows});
  }
  child.shrink(layout, tokens);
  return child;
}

void Sequence::truncate(const CacheLayout& layout, std::int64_t tokens) {
  // On copies first: giving up pages that are shared may need memory, and must not stop half way.
  std::vector<std::pair<PageTable, PageTable>> tables;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t rows = groups(layout.layers[i], tokens);
    tables.emplace_back(layers[i].compressed, layers[i].keys);
    tables.back().first.shrink(rows);
    tables.back().second.shrink(rows);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::tie(layers[i].compressed, layers[i].keys) = std::move(tables[i]);
  }
  length = tokens;
  if (tokens > 0) return;
  reached = 0;
  drop_rings();
}

}  // namespace skim

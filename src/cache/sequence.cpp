#include "cache/sequence.hpp"

namespace skim {
namespace {

/// Whole groups among this many tokens.
std::int64_t groups(const LayerLayout& layout, std::int64_t tokens) {
  return layout.ratio > 0 ? tokens / layout.ratio : 0;
}

void fit_buffer(Buffer& buffer, Memory& memory, std::int64_t bytes) {
  if (buffer.bytes() == bytes) return;
  buffer.reset();
  if (bytes > 0) buffer = Buffer(memory, bytes);
}

}  // namespace

Sequence::Sequence(const CacheLayout& layout, std::int64_t page_rows, std::int64_t max_tokens) {
  for (const LayerLayout& layer : layout.layers) {
    LayerCache cache;
    cache.ring_rows = layer.ring_rows(max_tokens);
    cache.compressed = PageTable(*layout.memory, layer.compressed_row.bytes(), page_rows);
    cache.keys = PageTable(*layout.memory, layer.key_row.bytes(), page_rows);
    layers.push_back(std::move(cache));
  }
}

std::int64_t Sequence::bytes() const {
  std::int64_t total = 0;
  for (const LayerCache& layer : layers) {
    total += layer.ring.bytes() + layer.open.bytes() + layer.compressed.bytes() + layer.keys.bytes();
  }
  return total;
}

std::int64_t Sequence::bytes_for(const CacheLayout& layout, std::int64_t tokens) const {
  if (tokens == 0) return 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerLayout& layer = layout.layers[i];
    const std::int64_t rows = groups(layer, tokens);
    total += layers[i].ring_rows * layer.window_row.bytes() + layer.open_bytes();
    for (const PageTable* table : {&layers[i].compressed, &layers[i].keys}) {
      total += table->pages_for(rows) * table->page_bytes();
    }
  }
  return total;
}

void Sequence::fit(const CacheLayout& layout, std::int64_t tokens) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerLayout& layer = layout.layers[i];
    fit_buffer(layers[i].ring, *layout.memory, tokens > 0 ? layers[i].ring_rows * layer.window_row.bytes() : 0);
    fit_buffer(layers[i].open, *layout.memory, tokens > 0 ? layer.open_bytes() : 0);
    layers[i].compressed.fit(groups(layer, tokens));
    layers[i].keys.fit(groups(layer, tokens));
  }
}

}  // namespace skim

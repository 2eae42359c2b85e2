#include "cache/layout.hpp"

#include <algorithm>
#include <utility>

#include "models/family.hpp"

namespace skim {
namespace {

template <class Layout>
const Layout* find_named(const std::vector<Layout>& layouts, std::string_view name) {
  const auto found = std::find_if(layouts.begin(), layouts.end(), [name](const auto& l) { return l.name == name; });
  return found != layouts.end() ? &*found : nullptr;
}

}  // namespace

RingLayout window_ring(std::int64_t window, RowLayout row) {
  return {.name = kWindow, .row_bytes = row.bytes(), .row = row, .recent = window - 1, .period = 1, .kept = window};
}

RingLayout open_ring(int ratio, std::int64_t floats, int overlap, std::string_view name) {
  return {.name = name,
          .row_bytes = floats * static_cast<std::int64_t>(sizeof(float)),
          .row = {},
          .recent = overlap,
          .period = ratio,
          .kept = overlap + ratio - 1};
}

const TableLayout* LayerLayout::find_table(std::string_view name) const { return find_named(tables, name); }
const RingLayout* LayerLayout::find_ring(std::string_view name) const { return find_named(rings, name); }

void CacheLayout::add(LayerLayout layer) {
  for (TableLayout& table : layer.tables) table.index = tables++;
  for (RingLayout& ring : layer.rings) ring.index = rings++;
  layers.push_back(std::move(layer));
}

std::size_t CacheLayout::slot(int layer) const {
  const auto found = std::lower_bound(layers.begin(), layers.end(), layer,
                                      [](const LayerLayout& layout, int wanted) { return layout.layer < wanted; });
  return static_cast<std::size_t>(found - layers.begin());
}

CacheLayout cache_layout(const Config& config, std::span<const int> layers, Memory& memory) {
  const Family& family = family_of(config);
  CacheLayout cache;
  cache.memory = &memory;
  cache.model = family.model_type;
  cache.yarn_beyond = family.shape(config).yarn_beyond;
  for (const int layer : layers) {
    LayerLayout layout = family.layout(config, role_of(config, layer));
    layout.layer = layer;
    cache.add(std::move(layout));
  }
  return cache;
}

}  // namespace skim

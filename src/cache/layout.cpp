#include "cache/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/family.hpp"
#include "skim/cache.hpp"
#include "skim/error.hpp"

namespace skim {
std::size_t CacheLayout::slot(int layer) const {
  const auto found = std::lower_bound(layers.begin(), layers.end(), layer,
                                      [](const LayerLayout& layout, int wanted) { return layout.layer < wanted; });
  return static_cast<std::size_t>(found - layers.begin());
}

bool CacheLayout::has_rings() const {
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerLayout& layer) { return layer.window > 0 || layer.ratio > 1; });
}

CacheLayout cache_layout(const Config& config, std::span<const int> layers, Memory& memory) {
  const Family& family = family_of(config);
  CacheLayout cache{.layers = {},
                    .memory = &memory,
                    .model = std::string(family.model_type),
                    .fingerprint = {},
                    .yarn_beyond = family.shape(config).yarn_beyond};
  for (const int layer : layers) {
    cache.layers.push_back(family.layout(config, layer_role(config, layer)));
    cache.layers.back().layer = layer;
  }
  return cache;
}

CacheCost cache_cost(const Config& config, std::span<const int> layers, std::int64_t rollback) {
  if (rollback < 0 || rollback > kMostRollback) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cache cost: rollback is {}, expected 0 to {}", rollback, kMostRollback));
  }
  CacheCost cost;
  const RingLimits limits{std::numeric_limits<std::int64_t>::max(), rollback};
  for (const LayerLayout& layout : cache_layout(config, layers, host_memory()).layers) {
    cost.bytes_fixed += layout.ring_rows(limits) * layout.window_row.bytes();
    cost.bytes_fixed += layout.open_rows(limits) * layout.open_row_bytes();
    if (layout.ratio > 0) {
      cost.bytes_per_token +=
          static_cast<double>(layout.compressed_row.bytes() + layout.key_row.bytes()) / layout.ratio;
    }
  }
  return cost;
}

}  // namespace skim

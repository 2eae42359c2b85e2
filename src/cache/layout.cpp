#include "cache/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "skim/cache.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

LayerLayout layer_layout(const V41Config& config, const LayerRole& role) {
  LayerLayout layout;
  layout.window = config.window_size;
  layout.window_row = {RowFormat::fp8_e8m0, config.head_dim};
  if (role.role == Role::full) {
    layout.ratio = role.ratio;
    layout.compressed_row = {RowFormat::fp4_e4m3, config.head_dim};
    layout.key_row = {RowFormat::fp4_e8m0, config.index_head_dim};
    layout.open_floats = 2 * static_cast<std::int64_t>(config.head_dim);
  }
  return layout;
}

LayerLayout layer_layout(const V32Config& config, const LayerRole& role) {
  const Fp8Scale scale = config.ue8m0_scales ? Fp8Scale::pow2 : Fp8Scale::float32;
  LayerLayout layout;
  layout.ratio = role.ratio;
  layout.compressed_row = {RowFormat::fp8_f32, config.kv_lora_rank + config.qk_rope_head_dim, config.qk_rope_head_dim,
                           scale};
  layout.key_row = {RowFormat::fp8_f32, config.index_head_dim, 0, scale};
  return layout;
}

}  // namespace

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
  CacheLayout cache{.layers = {}, .memory = &memory, .model = std::string(model_type(config)), .fingerprint = {}};
  if (const auto* v32 = std::get_if<V32Config>(&config)) cache.yarn_beyond = v32->original_seq_len;
  for (const int layer : layers) {
    const LayerRole role = layer_role(config, layer);
    cache.layers.push_back(std::visit([&](const auto& c) { return layer_layout(c, role); }, config));
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

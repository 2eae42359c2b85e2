// What sequences cost, before there are any.
#include <algorithm>
#include <bit>

#include "cache/cache_impl.hpp"
#include "cache/layout.hpp"
#include "skim/cache.hpp"

namespace skim {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

/// Rows allocated for `count` of them.
std::int64_t allocated(const CacheCost::Rows& rows, std::int64_t count) {
  if (count <= 0) return 0;
  const std::int64_t step = rows.doubling_up_to;
  if (rows.most > 0 && count >= rows.most) return rows.most;
  if (count > step) return (count + step - 1) / step * step;
  return std::min(step, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count))));
}

}  // namespace

std::int64_t CacheCost::bytes_at(std::int64_t tokens) const {
  std::int64_t total = 0;
  for (const Rows& kind : rows) {
    const std::int64_t count = allocated(kind, tokens / kind.tokens);
    if (count > (kMostBytes - total) / kind.bytes) return kMostBytes;
    total += count * kind.bytes;
  }
  return total;
}

CacheCost cache_cost(const Config& config, std::span<const int> layers, const CacheOptions& options) {
  check_options(options);
  validate(config);
  CacheCost cost;
  const RingLimits limits{options.max_tokens, options.rollback};
  for (const LayerLayout& layer : cache_layout(config, layers, host_memory()).layers) {
    for (const TableLayout& table : layer.tables) {
      cost.rows.push_back({table.row.bytes(), table.ratio, 0, options.page_rows});
      cost.bytes_per_token += static_cast<double>(table.row.bytes()) / table.ratio;
    }
    for (const RingLayout& ring : layer.rings) {
      const std::int64_t slots = ring.most_slots(limits);
      cost.rows.push_back({ring.row_bytes, 1, slots, slots});
      cost.bytes_fixed += slots * ring.row_bytes;
    }
  }
  return cost;
}

CacheCost cache_cost(const Config& config, std::span<const int> layers, std::int64_t rollback) {
  CacheOptions options;
  options.rollback = rollback;
  return cache_cost(config, layers, options);
}

}  // namespace skim

// What its family knows of V4: the functions of `Family`.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "attention/rope.hpp"
#include "cache/layout.hpp"
#include "models/family.hpp"
#include "skim/config.hpp"

namespace skim {

extern const Family v4_family;

namespace v4 {

/// Ring of what tokens wait with for the index key of their group; kOpen: for its compressed row.
inline constexpr std::string_view kOpenKeys = "open_keys";

/// Groups of this ratio, and of no other, overlap and are selected from.
constexpr bool overlaps(int ratio) { return ratio == 4; }

inline const V4Config& config_of(const Config& config) { return std::get<V4Config>(config); }

LayerRole role(const Config& config, int layer);
std::vector<LayerTensor> tensors(const Config& config, int layer);
LayerLayout layout(const Config& config, const LayerRole& role);
std::vector<RecordedKind> recorded(const Config& config);
std::int64_t arena_bytes(const Config& config, const LayerRole& role);
std::unique_ptr<const LoadedLayer> load(const LayerLoader& load, const Config& config, const LayerRole& role);

}  // namespace v4
}  // namespace skim

// What its family knows of V3.2: the functions of `Family`, and configurations.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "attention/rope.hpp"
#include "cache/layout.hpp"
#include "models/family.hpp"
#include "skim/config.hpp"

namespace skim {

extern const Family v32_family;

namespace v32 {

inline const V32Config& config_of(const Config& config) { return std::get<V32Config>(config); }

LayerRole role(const Config& config, int layer);
std::vector<LayerTensor> tensors(const Config& config, int layer);
LayerLayout layout(const Config& config, const LayerRole& role);
std::vector<RecordedKind> recorded(const Config& config);
/// Main queries, keys and index vectors use the same table.
RopeParameters rope(const Config& config, const LayerRole& role, bool yarn);
std::int64_t arena_bytes(const Config& config, const LayerRole& role);
std::unique_ptr<const LoadedLayer> load(const LayerLoader& load, const Config& config, const LayerRole& role);

}  // namespace v32
}  // namespace skim

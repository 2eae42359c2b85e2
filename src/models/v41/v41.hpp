// What its family knows of V4.1: the functions of `Family`, and configurations.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "attention/rope.hpp"
#include "cache/layout.hpp"
#include "models/family.hpp"
#include "skim/config.hpp"

namespace skim {

extern const Family v41_family;

namespace v41 {

inline const V41Config& config_of(const Config& config) { return std::get<V41Config>(config); }

LayerRole role(const Config& config, int layer);
std::vector<LayerTensor> tensors(const Config& config, int layer);
LayerLayout layout(const Config& config, const LayerRole& role);
std::vector<RecordedKind> recorded(const Config& config);
/// Plain rope_theta at ratio 0, compress_rope_theta with YaRN otherwise. Queries, window rows, compressed rows and
/// index vectors of a layer all use the same table.
RopeParameters rope(const Config& config, const LayerRole& role, bool yarn);
std::int64_t arena_bytes(const Config& config, const LayerRole& role);
std::unique_ptr<const LoadedLayer> load(const LayerLoader& load, const Config& config, const LayerRole& role);

}  // namespace v41
}  // namespace skim

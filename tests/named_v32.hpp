// Tests of one model take its configuration by name.
#pragma once

#include <string_view>
#include <variant>

#include "skim/config.hpp"

namespace skim::test {

inline V32Config named_v32(std::string_view name) { return std::get<V32Config>(named_config(name)); }
inline const V32Config& as_v32(const Config& config) { return std::get<V32Config>(config); }

}  // namespace skim::test

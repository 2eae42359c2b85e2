// Tests of one model take its configuration by name.
#pragma once

#include <string_view>
#include <variant>

#include "skim/config.hpp"

namespace skim::test {

inline V41Config named_v41(std::string_view name) { return std::get<V41Config>(named_config(name)); }
inline const V41Config& as_v41(const Config& config) { return std::get<V41Config>(config); }

}  // namespace skim::test

// What every model's configuration is checked with. Messages name the field, what was found and what was expected.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "skim/error.hpp"

namespace skim {

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorCode::bad_config, fmt::format(text, std::forward<Args>(args)...));
}

// Bounds keep every product of two extents inside 64 bits and every extent inside 32.
inline constexpr std::int64_t kMostExtent = 1 << 24;
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
inline constexpr std::int64_t kMostLayers = 4096, kMostDraftLayers = 1024;

inline void check_range(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) refuse("{} is {}, expected {} to {}", field, value, low, high);
}

inline void check_positive(std::string_view field, std::int64_t value) { check_range(field, value, 1, kMostExtent); }

inline void check_multiple(std::string_view field, std::int64_t value, std::string_view of, std::int64_t divisor) {
  if (value % divisor != 0) refuse("{} is {}, expected a multiple of {} ({})", field, value, divisor, of);
}

inline void check_number(std::string_view field, double value, double low, double high) {
  if (!(value >= low && value <= high)) refuse("{} is {:g}, expected {:g} to {:g}", field, value, low, high);
}

/// Both are positive and below 2^48.
inline void check_weight(std::string_view out_field, std::int64_t out, std::string_view in_field, std::int64_t in) {
  if (out > kMostElements / in) {
    refuse("{} is {} and {} is {}: a weight of more than {} elements", out_field, out, in_field, in, kMostElements);
  }
}

}  // namespace skim

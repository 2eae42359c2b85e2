// The one list of families, and what the public header asks of the configuration of any.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "models/family.hpp"
#include "models/v32/v32.hpp"
#include "models/v4/v4.hpp"
#include "models/v41/v41.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

/// In the order of the alternatives of Config.
constexpr std::array kByConfig = {&v41_family, &v32_family, &v4_family};
static_assert(kByConfig.size() == std::variant_size_v<Config>);

}  // namespace

std::span<const Family* const> families() { return kByConfig; }

const Family& family_of(const Config& config) { return *kByConfig[config.index()]; }

const Family* find_family(std::string_view model_type) {
  const auto found = std::find_if(kByConfig.begin(), kByConfig.end(),
                                  [&](const Family* family) { return family->model_type == model_type; });
  return found != kByConfig.end() ? *found : nullptr;
}

std::string known_model_types(std::string_view quote) {
  std::string text;
  for (std::size_t i = 0; i < kByConfig.size(); ++i) {
    if (i > 0) text += i + 1 < kByConfig.size() ? ", " : " or ";
    text += fmt::format("{}{}{}", quote, kByConfig[i]->model_type, quote);
  }
  return text;
}

}  // namespace skim

// Names of the tensors of a case file: docs/cases.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skim {

std::string case_tensor_name(std::int64_t call, int layer, std::string_view what);

/// "call.<call>.layer.<layer>.<what>" taken apart.
struct CaseTensorName {
  std::int64_t call = 0;
  int layer = 0;
  std::string what;
};

/// Nothing for any other name.
std::optional<CaseTensorName> parse_case_tensor_name(std::string_view name);

/// Call of "call.<call>.rows"; nothing for any other name.
std::optional<std::int64_t> call_of_rows_name(std::string_view name);

/// Whether readers pass over a tensor of this name: what somebody keeps for himself ("x_..."), and what single ranks
/// computed ("rank.r...").
bool is_passed_over(std::string_view what);

/// The one of `names` that is most like `name`.
std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& names);

}  // namespace skim

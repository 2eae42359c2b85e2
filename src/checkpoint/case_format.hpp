// What a case file says of itself in its metadata (docs/cases.md).
#pragma once

#include <string>
#include <string_view>

#include "skim/config.hpp"

namespace skim {

/// Metadata `format` of a case file.
inline constexpr std::string_view kCaseFormat = "attention-case/1";

/// The configuration of a case file from its metadata `model` and `config`; `name` starts messages.
/// Throws Error{bad_config}.
Config parse_case_config(const std::string& model, const std::string& config, const std::string& name);

}  // namespace skim

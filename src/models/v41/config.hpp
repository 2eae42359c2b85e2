// The configuration of DeepSeek-V4.1: docs/v41.md, Checkpoint.
#pragma once

#include <string>
#include <string_view>

#include "models/config_reader.hpp"
#include "models/fields.hpp"

namespace skim {

inline constexpr int kV41Block = 32;  // side of the blocks of weights that share a scale
inline constexpr std::string_view kV41Model = "deepseek_v41";

/// Points into `config`.
Fields fields_of(V41Config& config);

/// Reads config.json in either spelling, and checks it. Throws Error{bad_config}; messages about fields that do not fit
/// together lack the name of the document.
V41Config read_v41_config(const JsonObject& document, const ReadOptions& options);

/// Throws Error{bad_config} for fields that contradict one another or cannot be computed, calling them by `names`.
void check_config(const V41Config& config, const FieldNames& names = {});

/// What is left of a configuration if fields without effect and those of draft layers are dropped.
V41Config effective_config(const V41Config& config, std::int64_t max_tokens);

V41Config v41_flash_config();
V41Config v41_tiny_config();

}  // namespace skim

// The configuration of DeepSeek-V4: docs/v4.md, Checkpoint.
#pragma once

#include <string_view>

#include "models/config_reader.hpp"
#include "models/fields.hpp"

namespace skim {

inline constexpr int kV4Block = 128;  // side of the blocks of weights that share a scale
inline constexpr std::string_view kV4Model = "deepseek_v4";

/// Points into `config`.
Fields fields_of(V4Config& config);

/// Reads config.json in either spelling, and checks it. Throws Error{bad_config}; messages about fields that do not fit
/// together lack the name of the document.
V4Config read_v4_config(const JsonObject& document, const ReadOptions& options);

/// Throws Error{bad_config} for fields that contradict one another or cannot be computed, calling them by `names`.
void check_config(const V4Config& config, const FieldNames& names = {});

/// What is left of a configuration if fields without effect and those of draft layers are dropped.
V4Config effective_config(const V4Config& config);

V4Config v4_flash_config();
V4Config v4_pro_config();
V4Config v4_tiny_config();

}  // namespace skim

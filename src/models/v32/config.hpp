// The configuration of DeepSeek-V3.2: docs/v32.md, Checkpoint.
#pragma once

#include <string>
#include <string_view>

#include "models/config_reader.hpp"
#include "models/fields.hpp"

namespace skim {

inline constexpr int kV32Block = 128;  // side of the blocks of weights that share a scale
inline constexpr std::string_view kV32Model = "deepseek_v32";

/// Points into `config`.
Fields fields_of(V32Config& config);

/// Reads config.json in either spelling, and checks it. Throws Error{bad_config}; messages about fields that do not fit
/// together lack the name of the document.
V32Config read_v32_config(const JsonObject& document, const ReadOptions& options);

/// Throws Error{bad_config} for fields that contradict one another or cannot be computed, calling them by `names`.
void check_config(const V32Config& config, const FieldNames& names = {});

/// What is left of a configuration in caches for `max_tokens` tokens if fields without effect and draft layers are
/// dropped.
V32Config effective_config(const V32Config& config, std::int64_t max_tokens);

V32Config v32_config();
V32Config v32_tiny_config();

// Steps of reading that V3.2 shares with its relatives.

/// Which layers select for themselves: indexer_types, else index_topk_pattern, else index_topk_freq and
/// index_skip_topk_offset. All full leaves `indexer_types` empty.
void read_indexer_types(ConfigReader& reader, Field& field, V32Config& config);
/// Everything but rotation and what read_indexer_types reads.
void read_mla_shape(ConfigReader& reader, Fields& fields);
/// Refuses what multi-head latent attention with an indexer cannot do otherwise.
void expect_plain_mla(ConfigReader& reader, const V32Config& config);
/// Keys of such models that say nothing of what is computed.
inline constexpr std::string_view kHarmlessMlaKeys[] = {
    "head_dim",  // of the whole head or of its rotated part: qk_nope_head_dim and qk_rope_head_dim count
    "index_share_for_mtp_iteration",  // drafting across calls
    "model_type",
};
/// Refuses fields that do not fit together.
void check_mla_shape(const V32Config& config, const FieldNames& names);

}  // namespace skim

// What each model knows of its configuration: rules, well-known shapes, and how config.json spells it.
#pragma once

#include <string>
#include <string_view>

#include "files/json.hpp"
#include "skim/config.hpp"

namespace skim {

inline constexpr std::string_view kV41Model = "deepseek_v41", kV32Model = "deepseek_v32";
inline constexpr int kV41Block = 32, kV32Block = 128;  // side of the blocks of weights that share a scale

/// Throw Error{bad_config} for fields that contradict one another or cannot be computed.
void check_config(const V41Config& config);
void check_config(const V32Config& config);

V41Config v41_flash_config();
V41Config v41_tiny_config();
V32Config v32_config();
V32Config v32_tiny_config();

/// Read config.json, not yet checked. Throw Error{bad_config}.
V41Config read_v41_config(const JsonObject& document);
V32Config read_v32_config(const JsonObject& document);

/// Every field that results depend on, in one line: equal texts, equal models but for their weights.
std::string canonical_text(const Config& config);
std::string canonical_text(const V41Config& config);
std::string canonical_text(const V32Config& config);

/// A size or count that fits an int. Most cannot be 0.
inline int small_integer(const JsonObject& object, std::string_view key, int low = 1) {
  return static_cast<int>(object.integer(key, low, 1 << 24));
}

/// `dtype` of an inference configuration, if it is there.
void read_weight_type(const JsonObject& object, WeightType& type);
/// Refuses blocks of weight scales other than `block` x `block`, if quantization_config names them.
void check_block_size(const JsonObject& object, int block);
/// The YaRN parameters that every released rope_scaling has. Any other kind of scaling is refused, and so is one that
/// changes the length of what is rotated.
struct RopeScaling {
  double factor = 1, beta_fast = 32, beta_slow = 1;
  std::int64_t original_seq_len = 0;
};
RopeScaling read_yarn(const JsonObject& scaling);

}  // namespace skim

// Model configurations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace skim {

/// How the weights of a synthetic model are stored. A real checkpoint says so itself, tensor by tensor.
enum class WeightType { bf16, fp8 };

/// Whether a layer selects for itself or takes over what the nearest earlier full layer selected.
enum class IndexerType { full, shared };

/// DeepSeek-V4.1 attention (model_type `deepseek_v41`). Field names are those of DeepSeek's inference configuration.
struct V41Config {
  std::int64_t dim = 0;    ///< Width of the hidden state.
  int n_layers = 0;        ///< Backbone layers.
  int n_draft_layers = 0;  ///< Layers after the backbone (`mtp.K` in a checkpoint), ratio 0.
  int n_heads = 0;
  int head_dim = 0;       ///< Width of a head and of the latent; a multiple of 32.
  int rope_head_dim = 0;  ///< Trailing elements of head_dim and index_head_dim that are rotated; even.
  int q_lora_rank = 0;
  int o_groups = 0;  ///< Divides n_heads.
  int o_lora_rank = 0;
  int window_size = 0;  ///< Positions a query sees uncompressed, its own included.
  double norm_eps = 0;
  double rope_theta = 0;           ///< Ratio-0 layers.
  double compress_rope_theta = 0;  ///< Layers with a ratio.
  double rope_factor = 1;          ///< YaRN, on layers with a ratio if original_seq_len > 0.
  double beta_fast = 32, beta_slow = 1;
  std::int64_t original_seq_len = 0;     ///< 0: no YaRN.
  std::vector<int> compress_ratios;      ///< One per backbone layer, then one per draft layer.
  std::vector<int> kv_source_layers;     ///< Ascending.
  std::vector<int> index_source_layers;  ///< Ascending; contains kv_source_layers.
  int index_n_heads = 0;
  int index_head_dim = 0;           ///< A multiple of 32.
  int index_topk = 0;               ///< Compressed positions a query attends to.
  int candidate_source_layer = -1;  ///< -1: no candidate blocks.
  int candidate_topk_blocks = 0;
  int candidate_block_size = 0;
  std::int64_t max_positions = 0;            ///< Longest context the model is made for; 0: not said. Bounds nothing.
  WeightType weight_type = WeightType::fp8;  ///< For Checkpoint::synthetic.

  int layer_count() const { return n_layers + n_draft_layers; }
  int ratio(int layer) const { return compress_ratios[static_cast<std::size_t>(layer)]; }
  friend bool operator==(const V41Config&, const V41Config&) = default;
};

/// DeepSeek-V3.2 attention (model_type `deepseek_v32`): MLA with a lightning indexer in every layer. Field names are
/// those of DeepSeek's inference configuration.
struct V32Config {
  std::int64_t dim = 0;    ///< Width of the hidden state.
  int n_layers = 0;        ///< Backbone layers.
  int n_draft_layers = 0;  ///< Layers after the backbone, of the same kind.
  int n_heads = 0;
  int q_lora_rank = 0;
  int kv_lora_rank = 0;      ///< Width of the latent; a multiple of 128.
  int qk_nope_head_dim = 0;  ///< Elements of a head's query and key that are not rotated.
  int qk_rope_head_dim = 0;  ///< Elements that are, and leading elements of an index vector that are; even.
  int v_head_dim = 0;
  double norm_eps = 1e-6;
  double rope_theta = 1e4;
  double rope_factor = 40;  ///< YaRN, on if the context exceeds original_seq_len.
  double beta_fast = 32, beta_slow = 1;
  double mscale = 1;                     ///< With YaRN the softmax scale gets (0.1 mscale ln(rope_factor) + 1)^2.
  std::int64_t original_seq_len = 4096;  ///< 0: never YaRN.
  int index_n_heads = 0;
  int index_head_dim = 0;               ///< A power of two, at most 128.
  int index_topk = 0;                   ///< Positions a query attends to.
  bool ue8m0_scales = true;             ///< scale_fmt "ue8m0": scales of quantized activations are powers of two.
  bool index_rope_interleaved = false;  ///< Index vectors are rotated in adjacent pairs, not in halves.
  bool index_hadamard = true;           ///< Index vectors go through a Hadamard transform.
  bool latent_fp8 = true;               ///< Latents go through fp8.
  std::vector<IndexerType> indexer_types = {};  ///< One per backbone layer; empty: all full.
  std::int64_t max_positions = 0;               ///< Longest context the model is made for; 0: not said. Bounds nothing.
  WeightType weight_type = WeightType::fp8;     ///< For Checkpoint::synthetic.

  int layer_count() const { return n_layers + n_draft_layers; }
  /// Whether a context of `max_tokens` is beyond what the plain rotation was trained for.
  bool uses_yarn(std::int64_t max_tokens) const { return original_seq_len > 0 && max_tokens > original_seq_len; }
  friend bool operator==(const V32Config&, const V32Config&) = default;
};

/// DeepSeek-V4 attention (model_type `deepseek_v4`). Field names are those of DeepSeek's inference configuration.
struct V4Config {
  std::int64_t dim = 0;    ///< Width of the hidden state.
  int n_layers = 0;        ///< Backbone layers.
  int n_draft_layers = 0;  ///< Layers after the backbone (`mtp.K` in a checkpoint), ratio 0.
  int n_heads = 0;
  int head_dim = 0;       ///< Width of a head and of a row.
  int rope_head_dim = 0;  ///< Trailing elements of head_dim and index_head_dim that are rotated; even. The others of a
                          ///< row are quantized, a multiple of 64.
  int q_lora_rank = 0;
  int o_groups = 0;  ///< Divides n_heads.
  int o_lora_rank = 0;
  int window_size = 0;  ///< Positions a query sees uncompressed, its own included.
  double norm_eps = 1e-6;
  double rope_theta = 0;           ///< Ratio-0 layers.
  double compress_rope_theta = 0;  ///< Layers with a ratio.
  double rope_factor = 1;          ///< YaRN, on layers with a ratio if original_seq_len > 0.
  double beta_fast = 32, beta_slow = 1;
  std::int64_t original_seq_len = 0;  ///< 0: no YaRN.
  std::vector<int> compress_ratios;   ///< One per backbone layer, then one per draft layer. 0: window only; 4: groups
                                      ///< overlap and are selected; any other: all of them are attended to.
  int index_n_heads = 0;
  int index_head_dim = 0;                    ///< A power of two of at least 32.
  int index_topk = 0;                        ///< Compressed positions a query of a ratio-4 layer attends to.
  std::int64_t max_positions = 0;            ///< Longest context the model is made for; 0: not said. Bounds nothing.
  WeightType weight_type = WeightType::fp8;  ///< For Checkpoint::synthetic.

  int layer_count() const { return n_layers + n_draft_layers; }
  int ratio(int layer) const { return compress_ratios[static_cast<std::size_t>(layer)]; }
  friend bool operator==(const V4Config&, const V4Config&) = default;
};

/// Configuration of any model there is.
using Config = std::variant<V41Config, V32Config, V4Config>;

/// e.g. "deepseek_v41"
std::string_view model_type(const Config& config);
/// Width of the hidden state.
std::int64_t hidden_dim(const Config& config);
int backbone_layers(const Config& config);
int layer_count(const Config& config);             ///< Draft layers included.
std::int64_t max_positions(const Config& config);  ///< Longest context the model is made for; 0: not said.
/// Whether layers that know YaRN use it in caches for `max_tokens` tokens.
bool uses_yarn(const Config& config, std::int64_t max_tokens);
/// Sizes for people to read, one or more lines: "deepseek_v41: 40 layers, ...".
std::string describe(const Config& config);

/// Reads config.json of any model in either spelling: the released one (Hugging Face names; V4.1's fields under
/// `text_config`) or DeepSeek's inference configuration (dim, n_layers, ...). Without a model_type, `kv_lora_rank`
/// tells V3.2. `name` appears in messages. The result is validated. What the document leaves out and is assumed is
/// added to `assumed`, a line each, e.g. "rope_scaling.beta_fast: 32". Throws Error{bad_config} naming the field as the
/// document spells it, what was found and what was expected; also for two fields that contradict one another, and for
/// one that speaks of attention and is unknown (docs/configurations.md).
Config parse_config(std::string_view json, const std::string& name, std::vector<std::string>* assumed = nullptr);

/// Throws Error{bad_config} if the fields contradict one another (the message quotes both values) or cannot be
/// computed. `name` starts the message.
void validate(const Config& config, const std::string& name = "config");

/// Configurations by name: "v41-flash", "v32", "v4-flash" and "v4-pro" are the released shapes; "v41-tiny" (seven
/// layers, every role), "v32-tiny" (two layers) and "v4-tiny" (five layers) are for trials. Throws
/// Error{invalid_argument} listing the names there are.
Config named_config(std::string_view name);

/// What a layer does about compressed positions.
enum class Role {
  window_only,  ///< Ratio 0: sliding window alone.
  full,         ///< Owns rows and index keys, scores and selects. Every layer of V3.2, with ratio 1.
  reindex,      ///< Scores another layer's index keys with its own queries.
  reuse,        ///< Attends to what an earlier layer selected.
  dense,        ///< Owns rows and attends to all of them that are visible; no index. V4, ratios other than 4.
};
std::string_view role_name(Role role);

/// Role of a layer and the layers it depends on (-1: none, or itself).
struct LayerRole {
  int layer = -1;
  Role role = Role::window_only;
  int ratio = 0;              ///< Tokens per compressed row; 0: no rows but those of a window.
  int kv_source = -1;         ///< Layer whose rows are attended to; itself for full.
  int key_source = -1;        ///< Layer whose index keys are scored; itself for full. -1 for layers that score nothing.
  int index_source = -1;      ///< Layer whose selection is used; itself for full and reindex. -1 with a ratio: all
                              ///< visible rows are attended to.
  int candidate_source = -1;  ///< Layer whose candidate blocks bound the selection; -1 for the source itself.
  bool is_candidate_source = false;

  bool owns_rows() const { return kv_source == layer; }
  bool owns_keys() const { return key_source == layer; }
  bool selects() const { return index_source == layer; }
  /// Attends to all visible rows instead of selected ones.
  bool is_dense() const { return ratio > 0 && index_source < 0; }
};
/// Throws Error{invalid_argument} for a layer that does not exist, Error{bad_config} for an invalid configuration.
LayerRole layer_role(const Config& config, int layer);

/// What the names of a layer's attention tensors begin with in a checkpoint: "layers.7.attn.", for a draft layer
/// "mtp.0.attn.", or "model.layers.7.self_attn.". Throws Error{invalid_argument} for a layer that does not exist.
std::string layer_prefix(const Config& config, int layer);
/// Layer that an attention tensor of a checkpoint belongs to ("layers.7.attn.wq_a.weight", "mtp.0.attn.attn_sink",
/// "model.layers.7.self_attn.o_proj.weight"); -1 for any other name.
int layer_of_tensor(const Config& config, std::string_view name);

}  // namespace skim

// DeepSeek-V4.1: docs/v41.md.
#include <fmt/format.h>

#include "models/v41/config.hpp"
#include "models/v41/v41.hpp"

namespace skim {
namespace v41 {
namespace {

constexpr NamedShape kShapes[] = {{"v41-flash", [] { return Config(v41_flash_config()); }},
                                  {"v41-tiny", [] { return Config(v41_tiny_config()); }}};

bool recognizes(const JsonObject& document) { return !document.has("kv_lora_rank"); }
Config read(const JsonObject& document, const ReadOptions& options) { return read_v41_config(document, options); }
void check(const Config& config) { check_config(config_of(config)); }
Config blank() { return V41Config(); }
Fields fields(Config& config) { return fields_of(std::get<V41Config>(config)); }

Config effective(const Config& config, std::int64_t max_tokens) {
  return effective_config(config_of(config), max_tokens);
}

ModelShape shape(const Config& config) {
  const V41Config& c = config_of(config);
  const bool has_candidates = c.candidate_source_layer >= 0;
  return {.dim = c.dim,
          .layers = c.n_layers,
          .draft_layers = c.n_draft_layers,
          .norm_eps = c.norm_eps,
          .context = 1 << 20,
          .heads = c.n_heads,
          .q_lora_rank = c.q_lora_rank,
          .head_width = c.head_dim,
          .rotated = c.rope_head_dim,
          .key_width = c.head_dim,
          .value_width = c.head_dim,
          .rounding = AttendRounding::exponentials,
          .window = c.window_size,
          .index_heads = c.index_n_heads,
          .topk = c.index_topk,
          .candidate_topk_blocks = has_candidates ? c.candidate_topk_blocks : 0,
          .candidate_block_size = has_candidates ? c.candidate_block_size : 0,
          .weight_type = c.weight_type};
}

std::string describe(const Config& config) {
  const V41Config& c = config_of(config);
  std::string text =
      fmt::format("{} layers, {} draft layers; dim {}, {} heads of {} ({} rotated), window {}", c.n_layers,
                  c.n_draft_layers, c.dim, c.n_heads, c.head_dim, c.rope_head_dim, c.window_size);
  if (c.kv_source_layers.empty()) return text;
  text += fmt::format("\nindex: {} heads of {}, top {}", c.index_n_heads, c.index_head_dim, c.index_topk);
  if (c.candidate_source_layer >= 0) {
    text += fmt::format(" within {} blocks of {} chosen by layer {}", c.candidate_topk_blocks, c.candidate_block_size,
                        c.candidate_source_layer);
  }
  return text;
}

}  // namespace

RopeParameters rope(const Config& config, const LayerRole& role, bool) {
  const V41Config& c = config_of(config);
  if (role.ratio == 0) return {.width = c.rope_head_dim, .theta = c.rope_theta};
  return {.width = c.rope_head_dim,
          .theta = c.compress_rope_theta,
          .original_seq_len = c.original_seq_len,
          .factor = c.rope_factor,
          .beta_fast = c.beta_fast,
          .beta_slow = c.beta_slow};
}

}  // namespace v41

constinit const Family v41_family = {.model_type = kV41Model,
                                     .other_model_type = "deepseek_v41_text",
                                     .named_shapes = v41::kShapes,
                                     .layer_names = {"layers.", "mtp.", ".attn."},
                                     .scales = {DType::f8_e8m0, kV41Block, ".weight", ".scale"},
                                     .output_projection = "wo_b.weight",
                                     .selection_format = SelectionFormat::window_first,
                                     .recognizes = v41::recognizes,
                                     .read = v41::read,
                                     .check = v41::check,
                                     .blank = v41::blank,
                                     .fields = v41::fields,
                                     .describe = v41::describe,
                                     .effective = v41::effective,
                                     .shape = v41::shape,
                                     .role = v41::role,
                                     .tensors = v41::tensors,
                                     .layout = v41::layout,
                                     .recorded = v41::recorded,
                                     .rope = v41::rope,
                                     .arena_bytes = v41::arena_bytes,
                                     .load = v41::load};

}  // namespace skim

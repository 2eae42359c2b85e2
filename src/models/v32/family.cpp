// DeepSeek-V3.2: docs/v32.md.
#include <fmt/format.h>

#include "models/v32/config.hpp"
#include "models/v32/v32.hpp"

namespace skim {
namespace v32 {
namespace {

constexpr NamedShape kShapes[] = {{"v32", [] { return Config(v32_config()); }},
                                  {"v32-tiny", [] { return Config(v32_tiny_config()); }}};

bool recognizes(const JsonObject& document) { return document.has("kv_lora_rank"); }
Config read(const JsonObject& document, const ReadOptions& options) { return read_v32_config(document, options); }
void check(const Config& config) { check_config(config_of(config)); }
Config blank() { return V32Config(); }
Fields fields(Config& config) { return fields_of(std::get<V32Config>(config)); }

Config effective(const Config& config, std::int64_t max_tokens) {
  return effective_config(config_of(config), max_tokens);
}

ModelShape shape(const Config& config) {
  const V32Config& c = config_of(config);
  return {.dim = c.dim,
          .layers = c.n_layers,
          .draft_layers = c.n_draft_layers,
          .norm_eps = c.norm_eps,
          .context = 128 << 10,
          .heads = c.n_heads,
          .q_lora_rank = c.q_lora_rank,
          .head_width = std::int64_t{c.qk_nope_head_dim} + c.qk_rope_head_dim,
          .rotated = c.qk_rope_head_dim,
          .key_width = std::int64_t{c.kv_lora_rank} + c.qk_rope_head_dim,
          .value_width = c.kv_lora_rank,
          .rounding = AttendRounding::logits,
          .index_heads = c.index_n_heads,
          .topk = c.index_topk,
          .yarn_beyond = c.original_seq_len,
          .input_scale = c.ue8m0_scales ? Fp8Scale::pow2 : Fp8Scale::float32,
          .weight_type = c.weight_type};
}

std::string describe(const Config& config) {
  const V32Config& c = config_of(config);
  return fmt::format(
      "{} layers, {} draft layers; dim {}, {} heads of {} + {} rotated, values of {}, latents of {}\n"
      "index: {} heads of {}, top {}; activation scales {}; {}",
      c.n_layers, c.n_draft_layers, c.dim, c.n_heads, c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim,
      c.kv_lora_rank, c.index_n_heads, c.index_head_dim, c.index_topk, c.ue8m0_scales ? "ue8m0" : "float32",
      c.original_seq_len > 0 ? fmt::format("YaRN beyond a context of {}", c.original_seq_len) : std::string("no YaRN"));
}

}  // namespace

RopeParameters rope(const Config& config, const LayerRole&, bool yarn) {
  const V32Config& c = config_of(config);
  if (!yarn) return {.width = c.qk_rope_head_dim, .theta = c.rope_theta};
  return {.width = c.qk_rope_head_dim,
          .theta = c.rope_theta,
          .original_seq_len = c.original_seq_len,
          .factor = c.rope_factor,
          .beta_fast = c.beta_fast,
          .beta_slow = c.beta_slow};
}

}  // namespace v32

constinit const Family v32_family = {.model_type = kV32Model,
                                     .other_model_type = {},
                                     .named_shapes = v32::kShapes,
                                     .layer_names = {"model.layers.", {}, ".self_attn."},
                                     .scales = {DType::f32, kV32Block, {}, "_scale_inv"},
                                     .output_projection = "o_proj.weight",
                                     .selection_format = SelectionFormat::positions,
                                     .recognizes = v32::recognizes,
                                     .read = v32::read,
                                     .check = v32::check,
                                     .blank = v32::blank,
                                     .fields = v32::fields,
                                     .describe = v32::describe,
                                     .effective = v32::effective,
                                     .shape = v32::shape,
                                     .role = v32::role,
                                     .tensors = v32::tensors,
                                     .layout = v32::layout,
                                     .recorded = v32::recorded,
                                     .rope = v32::rope,
                                     .arena_bytes = v32::arena_bytes,
                                     .load = v32::load};

}  // namespace skim

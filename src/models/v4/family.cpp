// DeepSeek-V4: docs/v4.md.
#include <fmt/format.h>

#include "models/v4/config.hpp"
#include "models/v4/v4.hpp"

namespace skim {
namespace v4 {
namespace {

constexpr NamedShape kShapes[] = {{"v4-flash", [] { return Config(v4_flash_config()); }},
                                  {"v4-pro", [] { return Config(v4_pro_config()); }},
                                  {"v4-tiny", [] { return Config(v4_tiny_config()); }}};

bool recognizes(const JsonObject&) { return false; }
Config read(const JsonObject& document, const ReadOptions& options) { return read_v4_config(document, options); }
void check(const Config& config) { check_config(config_of(config)); }
Config blank() { return V4Config(); }
Fields fields(Config& config) { return fields_of(std::get<V4Config>(config)); }
Config effective(const Config& config, std::int64_t) { return effective_config(config_of(config)); }

ModelShape shape(const Config& config) {
  const V4Config& c = config_of(config);
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
          .weight_type = c.weight_type};
}

std::string describe(const Config& config) {
  const V4Config& c = config_of(config);
  return fmt::format(
      "{} layers, {} draft layers; dim {}, {} heads of {} ({} rotated), window {}\n"
      "index: {} heads of {}, top {}",
      c.n_layers, c.n_draft_layers, c.dim, c.n_heads, c.head_dim, c.rope_head_dim, c.window_size, c.index_n_heads,
      c.index_head_dim, c.index_topk);
}

/// One table serves queries, window rows, compressed rows and index vectors of a layer.
RopeParameters rope(const Config& config, const LayerRole& role, bool) {
  const V4Config& c = config_of(config);
  if (role.ratio == 0) return {.width = c.rope_head_dim, .theta = c.rope_theta};
  return {.width = c.rope_head_dim,
          .theta = c.compress_rope_theta,
          .original_seq_len = c.original_seq_len,
          .factor = c.rope_factor,
          .beta_fast = c.beta_fast,
          .beta_slow = c.beta_slow};
}

}  // namespace
}  // namespace v4

constinit const Family v4_family = {.model_type = kV4Model,
                                    .other_model_type = {},
                                    .named_shapes = v4::kShapes,
                                    .layer_names = {"layers.", "mtp.", ".attn."},
                                    .scales = {DType::f8_e8m0, kV4Block, ".weight", ".scale"},
                                    .output_projection = "wo_b.weight",
                                    .selection_format = SelectionFormat::window_first,
                                    .recognizes = v4::recognizes,
                                    .read = v4::read,
                                    .check = v4::check,
                                    .blank = v4::blank,
                                    .fields = v4::fields,
                                    .describe = v4::describe,
                                    .effective = v4::effective,
                                    .shape = v4::shape,
                                    .role = v4::role,
                                    .tensors = v4::tensors,
                                    .layout = v4::layout,
                                    .recorded = v4::recorded,
                                    .rope = v4::rope,
                                    .arena_bytes = v4::arena_bytes,
                                    .load = v4::load};

}  // namespace skim

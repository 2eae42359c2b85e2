// config.json of V3.2 in its two spellings: docs/v32.md, Checkpoint.
#include <fmt/format.h>

#include "checkpoint/config_models.hpp"
#include "checkpoint/tensor_names.hpp"

namespace skim {
namespace {

/// Fields that both spellings call the same.
void read_common(const JsonObject& object, V32Config& c) {
  c.q_lora_rank = small_integer(object, "q_lora_rank");
  c.kv_lora_rank = small_integer(object, "kv_lora_rank");
  c.qk_nope_head_dim = small_integer(object, "qk_nope_head_dim");
  c.qk_rope_head_dim = small_integer(object, "qk_rope_head_dim");
  c.v_head_dim = small_integer(object, "v_head_dim");
  c.index_n_heads = small_integer(object, "index_n_heads");
  c.index_head_dim = small_integer(object, "index_head_dim");
  c.index_topk = small_integer(object, "index_topk");
  if (object.has("num_nextn_predict_layers")) {
    c.n_draft_layers = static_cast<int>(object.integer("num_nextn_predict_layers", 0, 1024));
  }
}

/// `scale_fmt`: "ue8m0", or null or absent for float32 scales.
void read_scale_format(const JsonObject& object, V32Config& c) {
  c.ue8m0_scales = object.has("scale_fmt");
  if (c.ue8m0_scales && object.text("scale_fmt") != "ue8m0") object.fail("scale_fmt", "\"ue8m0\" or null");
}

/// Anything that would change the rotation in a way this model does not know is refused rather than ignored.
void read_rope_scaling(const JsonObject& object, V32Config& c) {
  c.original_seq_len = 0;
  if (!object.has("rope_scaling")) return;
  const JsonObject scaling = object.object("rope_scaling");
  const RopeScaling yarn = read_yarn(scaling);
  c.rope_factor = yarn.factor;
  c.beta_fast = yarn.beta_fast;
  c.beta_slow = yarn.beta_slow;
  c.original_seq_len = yarn.original_seq_len;
  if (scaling.has("mscale")) c.mscale = scaling.number("mscale");
  if (scaling.has("mscale_all_dim") && scaling.number("mscale_all_dim") != c.mscale) {
    scaling.fail("mscale_all_dim", fmt::format("mscale, {:g}: this model does not scale its rotation", c.mscale));
  }
}

V32Config read_released(const JsonObject& object) {
  V32Config c;
  read_common(object, c);
  c.dim = object.integer("hidden_size", 1, 1 << 24);
  c.n_layers = small_integer(object, "num_hidden_layers");
  c.n_heads = small_integer(object, "num_attention_heads");
  c.norm_eps = object.number("rms_norm_eps");
  c.rope_theta = object.number("rope_theta");
  read_rope_scaling(object, c);
  if (object.has("quantization_config")) read_scale_format(object.object("quantization_config"), c);
  return c;
}

/// The published inference code has defaults for what released inference configurations leave out.
V32Config read_inference(const JsonObject& object) {
  V32Config c;
  read_common(object, c);
  c.dim = object.integer("dim", 1, 1 << 24);
  c.n_layers = small_integer(object, "n_layers");
  c.n_heads = small_integer(object, "n_heads");
  const auto number = [&](std::string_view key, double& value) {
    if (object.has(key)) value = object.number(key);
  };
  number("norm_eps", c.norm_eps);
  number("rope_theta", c.rope_theta);
  number("rope_factor", c.rope_factor);
  number("beta_fast", c.beta_fast);
  number("beta_slow", c.beta_slow);
  number("mscale", c.mscale);
  if (object.has("original_seq_len")) {
    c.original_seq_len = object.integer("original_seq_len", 0, std::int64_t{1} << 40);
  }
  read_scale_format(object, c);
  read_weight_type(object, c.weight_type);
  return c;
}

}  // namespace

V32Config read_v32_config(const JsonObject& document) {
  if (document.has("model_type") && document.text("model_type") != kV32Model) {
    document.fail("model_type", fmt::format("\"{}\"", kV32Model));
  }
  check_block_size(document, kV32Block);
  const bool released = document.has("hidden_size") || document.has("num_hidden_layers");
  return released ? read_released(document) : read_inference(document);
}

}  // namespace skim

// config.json of V4.1 in its two spellings: docs/v41.md, Checkpoint.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/config_models.hpp"
#include "checkpoint/tensor_names.hpp"

namespace skim {
namespace {

void check_model_type(const JsonObject& object, bool required) {
  if (!required && !object.has("model_type")) return;
  const std::string type = object.text("model_type");
  if (type != kV41Model && type != std::string(kV41Model) + "_text") {
    object.fail("model_type", fmt::format("\"{}\"", kV41Model));
  }
}

/// Fields that both spellings call the same.
void read_common(const JsonObject& object, V41Config& c) {
  c.head_dim = small_integer(object, "head_dim");
  c.q_lora_rank = small_integer(object, "q_lora_rank");
  c.o_groups = small_integer(object, "o_groups");
  c.o_lora_rank = small_integer(object, "o_lora_rank");
  c.rope_theta = object.number("rope_theta");
  c.compress_rope_theta = object.number("compress_rope_theta");
  c.compress_ratios = object.integers("compress_ratios");
  c.index_n_heads = small_integer(object, "index_n_heads", 0);  // 0 will do if nothing is selected
  c.index_head_dim = small_integer(object, "index_head_dim", 0);
  c.index_topk = small_integer(object, "index_topk", 0);
}

void read_candidates(const JsonObject& object, std::string_view source_key, V41Config& c) {
  c.candidate_source_layer = object.has(source_key) ? small_integer(object, source_key, -1) : -1;
  if (c.candidate_source_layer < 0) return;
  c.candidate_topk_blocks = small_integer(object, "candidate_topk_blocks");
  c.candidate_block_size = small_integer(object, "candidate_block_size");
}

/// Entries of compress_ratios beyond the backbone belong to draft layers, which never compress.
void read_draft_layers(const JsonObject& object, V41Config& c) {
  const auto extra = std::max<std::int64_t>(0, static_cast<std::int64_t>(c.compress_ratios.size()) - c.n_layers);
  const std::int64_t named =
      object.has("num_nextn_predict_layers") ? object.integer("num_nextn_predict_layers", 0, 1024) : 0;
  if (extra < named && static_cast<std::int64_t>(c.compress_ratios.size()) >= c.n_layers) {
    c.compress_ratios.resize(static_cast<std::size_t>(c.n_layers + named), 0);
  }
  c.n_draft_layers = static_cast<int>(std::max(extra, named));
}

/// Anything that would change the rotation in a way this model does not know is refused rather than ignored.
void read_rope_scaling(const JsonObject& object, V41Config& c) {
  c.original_seq_len = 0;
  if (!object.has("rope_scaling")) return;
  const JsonObject scaling = object.object("rope_scaling");
  const RopeScaling yarn = read_yarn(scaling);
  c.rope_factor = yarn.factor;
  c.beta_fast = yarn.beta_fast;
  c.beta_slow = yarn.beta_slow;
  c.original_seq_len = yarn.original_seq_len;
}

V41Config read_released(const JsonObject& object) {
  V41Config c;
  read_common(object, c);
  c.dim = object.integer("hidden_size", 1, 1 << 24);
  c.n_layers = small_integer(object, "num_hidden_layers");
  c.n_heads = small_integer(object, "num_attention_heads");
  c.rope_head_dim = small_integer(object, "qk_rope_head_dim");
  c.window_size = small_integer(object, "sliding_window");
  c.norm_eps = object.number("rms_norm_eps");
  c.kv_source_layers = object.integers("kv_source_layer_ids");
  c.index_source_layers = object.integers("index_source_layer_ids");
  read_rope_scaling(object, c);
  read_candidates(object, "candidate_source_layer_id", c);
  read_draft_layers(object, c);
  return c;
}

V41Config read_inference(const JsonObject& object) {
  V41Config c;
  read_common(object, c);
  c.dim = object.integer("dim", 1, 1 << 24);
  c.n_layers = small_integer(object, "n_layers");
  c.n_heads = small_integer(object, "n_heads");
  c.rope_head_dim = small_integer(object, "rope_head_dim");
  c.window_size = small_integer(object, "window_size");
  c.norm_eps = object.number("norm_eps");
  c.kv_source_layers = object.integers("kv_source_layers");
  c.index_source_layers = object.integers("index_source_layers");
  c.original_seq_len = object.integer("original_seq_len", 0, std::int64_t{1} << 40);
  if (c.original_seq_len > 0) {
    c.rope_factor = object.number("rope_factor");
    c.beta_fast = object.number("beta_fast");
    c.beta_slow = object.number("beta_slow");
  }
  read_weight_type(object, c.weight_type);
  read_candidates(object, "candidate_source_layer", c);
  read_draft_layers(object, c);
  return c;
}

}  // namespace

V41Config read_v41_config(const JsonObject& document) {
  check_block_size(document, kV41Block);
  if (document.has("text_config")) {
    check_model_type(document, true);
    const JsonObject text = document.object("text_config");
    check_model_type(text, false);
    check_block_size(text, kV41Block);
    return read_released(text);
  }
  if (document.has("hidden_size")) {
    check_model_type(document, true);
    return read_released(document);
  }
  check_model_type(document, false);
  return read_inference(document);
}

}  // namespace skim

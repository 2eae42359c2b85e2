// config.json in its two spellings: docs/v41.md, Checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checkpoint/json.hpp"
#include "checkpoint/tensor_names.hpp"
#include "out_of_memory.hpp"
#include "skim/config.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

constexpr std::string_view kModelType = "deepseek_v41";

int small_integer(const JsonObject& object, std::string_view key) {
  return static_cast<int>(object.integer(key, -1, 1 << 24));
}

void check_model_type(const JsonObject& object, bool required) {
  if (!required && !object.has("model_type")) return;
  const std::string type = object.text("model_type");
  if (type != kModelType && type != std::string(kModelType) + "_text") {
    object.fail("model_type", fmt::format("\"{}\"", kModelType));
  }
}

void check_quantization(const JsonObject& object) {
  if (!object.has("quantization_config")) return;
  const JsonObject quantization = object.object("quantization_config");
  if (!quantization.has("weight_block_size")) return;
  if (quantization.integers("weight_block_size") != std::vector<int>{kV41Block, kV41Block}) {
    quantization.fail("weight_block_size", fmt::format("[{}, {}]", kV41Block, kV41Block));
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
  c.index_n_heads = small_integer(object, "index_n_heads");
  c.index_head_dim = small_integer(object, "index_head_dim");
  c.index_topk = small_integer(object, "index_topk");
}

void read_candidates(const JsonObject& object, std::string_view source_key, V41Config& c) {
  c.candidate_source_layer = object.has(source_key) ? small_integer(object, source_key) : -1;
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

/// YaRN parameters of the released spelling. Anything that would change the rotation in a way this model does not know
/// is refused rather than ignored.
void read_rope_scaling(const JsonObject& object, V41Config& c) {
  c.original_seq_len = 0;
  if (!object.has("rope_scaling")) return;
  const JsonObject scaling = object.object("rope_scaling");
  for (const std::string_view key : {"rope_type", "type"}) {
    if (scaling.has(key) && scaling.text(key) != "yarn") scaling.fail(key, "\"yarn\"");
  }
  if (scaling.has("attention_factor") && scaling.number("attention_factor") != 1.0) {
    scaling.fail("attention_factor", "1, null or nothing: this model does not scale its rotation");
  }
  c.rope_factor = scaling.number("factor");
  c.beta_fast = scaling.number("beta_fast");
  c.beta_slow = scaling.number("beta_slow");
  c.original_seq_len = scaling.integer("original_max_position_embeddings", 1, std::int64_t{1} << 40);
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
  if (object.has("dtype")) {
    const std::string dtype = object.text("dtype");
    if (dtype != "fp8" && dtype != "bf16") object.fail("dtype", "\"fp8\" or \"bf16\"");
    c.weight_type = dtype == "bf16" ? WeightType::bf16 : WeightType::fp8;
  }
  read_candidates(object, "candidate_source_layer", c);
  read_draft_layers(object, c);
  return c;
}

V41Config read_config(const JsonObject& document) {
  check_quantization(document);
  if (document.has("text_config")) {
    check_model_type(document, true);
    const JsonObject text = document.object("text_config");
    check_model_type(text, false);
    check_quantization(text);
    return read_released(text);
  }
  if (document.has("hidden_size")) {
    check_model_type(document, true);
    return read_released(document);
  }
  check_model_type(document, false);
  return read_inference(document);
}

}  // namespace

V41Config parse_config(std::string_view json, const std::string& name) {
  return or_out_of_memory(name, [&] {
    const nlohmann::json value = parse_json(json, name, ErrorCode::bad_config);
    V41Config config = read_config(JsonObject(value, name, ErrorCode::bad_config));
    validate(config, name);
    return config;
  });
}

}  // namespace skim

#include "checkpoint/config_documents.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <variant>
#include <vector>

namespace skim::test {
namespace {

/// The members of a JSON object, in the order in which they are added.
class Members {
 public:
  void add(std::string_view key, int value) { put(key, fmt::format("{}", value)); }
  void add(std::string_view key, std::int64_t value) { put(key, fmt::format("{}", value)); }
  /// With a fraction, even if it is 0.
  void add(std::string_view key, double value) {
    const std::string text = fmt::format("{}", value);
    put(key, text.find_first_of(".e") == std::string::npos ? text + ".0" : text);
  }
  void add(std::string_view key, const std::vector<int>& values) {
    put(key, fmt::format("[{}]", fmt::join(values, ", ")));
  }
  void add(std::string_view key, const char* text) { put(key, fmt::format("\"{}\"", text)); }
  void add(std::string_view key, const Members& object) { put(key, object.text()); }
  std::string text() const { return "{" + list_ + "}"; }

 private:
  void put(std::string_view key, std::string_view value) {
    list_ += fmt::format("{}\"{}\": {}", list_.empty() ? "" : ", ", key, value);
  }
  std::string list_;
};

const char* weight_type_text(WeightType type) { return type == WeightType::bf16 ? "bf16" : "fp8"; }

template <class AnyConfig>
Members yarn(const AnyConfig& c) {
  Members scaling;
  scaling.add("type", "yarn");
  scaling.add("factor", c.rope_factor);
  scaling.add("beta_fast", c.beta_fast);
  scaling.add("beta_slow", c.beta_slow);
  scaling.add("original_max_position_embeddings", c.original_seq_len);
  return scaling;
}

std::string released(const V41Config& c) {
  Members text;
  text.add("model_type", "deepseek_v41");
  text.add("hidden_size", c.dim);
  text.add("num_hidden_layers", c.n_layers);
  text.add("num_attention_heads", c.n_heads);
  text.add("head_dim", c.head_dim);
  text.add("qk_rope_head_dim", c.rope_head_dim);
  text.add("q_lora_rank", c.q_lora_rank);
  text.add("o_groups", c.o_groups);
  text.add("o_lora_rank", c.o_lora_rank);
  text.add("sliding_window", c.window_size);
  text.add("rms_norm_eps", c.norm_eps);
  text.add("rope_theta", c.rope_theta);
  text.add("compress_rope_theta", c.compress_rope_theta);
  text.add("compress_ratios", c.compress_ratios);
  text.add("kv_source_layer_ids", c.kv_source_layers);
  text.add("index_source_layer_ids", c.index_source_layers);
  text.add("index_n_heads", c.index_n_heads);
  text.add("index_head_dim", c.index_head_dim);
  text.add("index_topk", c.index_topk);
  text.add("num_nextn_predict_layers", c.n_draft_layers);
  if (c.original_seq_len > 0) text.add("rope_scaling", yarn(c));
  if (c.candidate_source_layer >= 0) {
    text.add("candidate_source_layer_id", c.candidate_source_layer);
    text.add("candidate_topk_blocks", c.candidate_topk_blocks);
    text.add("candidate_block_size", c.candidate_block_size);
  }
  Members document;
  document.add("model_type", "deepseek_v41");
  document.add("text_config", text);
  return document.text();
}

std::string inference(const V41Config& c) {
  Members document;
  document.add("dtype", weight_type_text(c.weight_type));
  document.add("dim", c.dim);
  document.add("n_layers", c.n_layers);
  document.add("n_heads", c.n_heads);
  document.add("head_dim", c.head_dim);
  document.add("rope_head_dim", c.rope_head_dim);
  document.add("q_lora_rank", c.q_lora_rank);
  document.add("o_groups", c.o_groups);
  document.add("o_lora_rank", c.o_lora_rank);
  document.add("window_size", c.window_size);
  document.add("norm_eps", c.norm_eps);
  document.add("rope_theta", c.rope_theta);
  document.add("compress_rope_theta", c.compress_rope_theta);
  document.add("rope_factor", c.rope_factor);
  document.add("beta_fast", c.beta_fast);
  document.add("beta_slow", c.beta_slow);
  document.add("original_seq_len", c.original_seq_len);
  document.add("compress_ratios", c.compress_ratios);
  document.add("kv_source_layers", c.kv_source_layers);
  document.add("index_source_layers", c.index_source_layers);
  document.add("index_n_heads", c.index_n_heads);
  document.add("index_head_dim", c.index_head_dim);
  document.add("index_topk", c.index_topk);
  if (c.candidate_source_layer >= 0) {
    document.add("candidate_source_layer", c.candidate_source_layer);
    document.add("candidate_topk_blocks", c.candidate_topk_blocks);
    document.add("candidate_block_size", c.candidate_block_size);
  }
  return document.text();
}

std::string released(const V32Config& c) {
  Members document;
  document.add("model_type", "deepseek_v32");
  document.add("hidden_size", c.dim);
  document.add("num_hidden_layers", c.n_layers);
  document.add("num_attention_heads", c.n_heads);
  document.add("q_lora_rank", c.q_lora_rank);
  document.add("kv_lora_rank", c.kv_lora_rank);
  document.add("qk_nope_head_dim", c.qk_nope_head_dim);
  document.add("qk_rope_head_dim", c.qk_rope_head_dim);
  document.add("v_head_dim", c.v_head_dim);
  document.add("rms_norm_eps", c.norm_eps);
  document.add("rope_theta", c.rope_theta);
  document.add("index_n_heads", c.index_n_heads);
  document.add("index_head_dim", c.index_head_dim);
  document.add("index_topk", c.index_topk);
  document.add("num_nextn_predict_layers", c.n_draft_layers);
  Members quantization;
  quantization.add("weight_block_size", std::vector<int>{128, 128});
  if (c.ue8m0_scales) quantization.add("scale_fmt", "ue8m0");
  document.add("quantization_config", quantization);
  if (c.original_seq_len > 0) {
    Members scaling = yarn(c);
    scaling.add("mscale", c.mscale);
    scaling.add("mscale_all_dim", c.mscale);
    document.add("rope_scaling", scaling);
  }
  return document.text();
}

std::string inference(const V32Config& c) {
  Members document;
  document.add("dtype", weight_type_text(c.weight_type));
  document.add("dim", c.dim);
  document.add("n_layers", c.n_layers);
  document.add("n_heads", c.n_heads);
  document.add("q_lora_rank", c.q_lora_rank);
  document.add("kv_lora_rank", c.kv_lora_rank);
  document.add("qk_nope_head_dim", c.qk_nope_head_dim);
  document.add("qk_rope_head_dim", c.qk_rope_head_dim);
  document.add("v_head_dim", c.v_head_dim);
  document.add("norm_eps", c.norm_eps);
  document.add("rope_theta", c.rope_theta);
  document.add("rope_factor", c.rope_factor);
  document.add("beta_fast", c.beta_fast);
  document.add("beta_slow", c.beta_slow);
  document.add("mscale", c.mscale);
  document.add("original_seq_len", c.original_seq_len);
  document.add("index_n_heads", c.index_n_heads);
  document.add("index_head_dim", c.index_head_dim);
  document.add("index_topk", c.index_topk);
  document.add("num_nextn_predict_layers", c.n_draft_layers);
  if (c.ue8m0_scales) document.add("scale_fmt", "ue8m0");
  return document.text();
}

}  // namespace

std::string released_text(const Config& config) {
  return std::visit([](const auto& c) { return released(c); }, config);
}

std::string inference_text(const Config& config) {
  return std::visit([](const auto& c) { return inference(c); }, config);
}

}  // namespace skim::test

// A configuration written down in either spelling.
#pragma once

#include <nlohmann/json.hpp>

#include "skim/config.hpp"

namespace skim::test {

/// config.json of a released model: Hugging Face names under text_config.
inline nlohmann::json released_document(const V41Config& c) {
  nlohmann::json text = {{"model_type", "deepseek_v41"},
                         {"hidden_size", c.dim},
                         {"num_hidden_layers", c.n_layers},
                         {"num_attention_heads", c.n_heads},
                         {"head_dim", c.head_dim},
                         {"qk_rope_head_dim", c.rope_head_dim},
                         {"q_lora_rank", c.q_lora_rank},
                         {"o_groups", c.o_groups},
                         {"o_lora_rank", c.o_lora_rank},
                         {"sliding_window", c.window_size},
                         {"rms_norm_eps", c.norm_eps},
                         {"rope_theta", c.rope_theta},
                         {"compress_rope_theta", c.compress_rope_theta},
                         {"compress_ratios", c.compress_ratios},
                         {"kv_source_layer_ids", c.kv_source_layers},
                         {"index_source_layer_ids", c.index_source_layers},
                         {"index_n_heads", c.index_n_heads},
                         {"index_head_dim", c.index_head_dim},
                         {"index_topk", c.index_topk},
                         {"num_nextn_predict_layers", c.n_draft_layers}};
  if (c.original_seq_len > 0) {
    text["rope_scaling"] = {{"type", "yarn"},
                            {"factor", c.rope_factor},
                            {"beta_fast", c.beta_fast},
                            {"beta_slow", c.beta_slow},
                            {"original_max_position_embeddings", c.original_seq_len}};
  }
  if (c.candidate_source_layer >= 0) {
    text["candidate_source_layer_id"] = c.candidate_source_layer;
    text["candidate_topk_blocks"] = c.candidate_topk_blocks;
    text["candidate_block_size"] = c.candidate_block_size;
  }
  return {{"model_type", "deepseek_v41"}, {"text_config", text}};
}

/// DeepSeek's inference configuration.
inline nlohmann::json inference_document(const V41Config& c) {
  nlohmann::json document = {{"dtype", c.weight_type == WeightType::bf16 ? "bf16" : "fp8"},
                             {"dim", c.dim},
                             {"n_layers", c.n_layers},
                             {"n_heads", c.n_heads},
                             {"head_dim", c.head_dim},
                             {"rope_head_dim", c.rope_head_dim},
                             {"q_lora_rank", c.q_lora_rank},
                             {"o_groups", c.o_groups},
                             {"o_lora_rank", c.o_lora_rank},
                             {"window_size", c.window_size},
                             {"norm_eps", c.norm_eps},
                             {"rope_theta", c.rope_theta},
                             {"compress_rope_theta", c.compress_rope_theta},
                             {"rope_factor", c.rope_factor},
                             {"beta_fast", c.beta_fast},
                             {"beta_slow", c.beta_slow},
                             {"original_seq_len", c.original_seq_len},
                             {"compress_ratios", c.compress_ratios},
                             {"kv_source_layers", c.kv_source_layers},
                             {"index_source_layers", c.index_source_layers},
                             {"index_n_heads", c.index_n_heads},
                             {"index_head_dim", c.index_head_dim},
                             {"index_topk", c.index_topk}};
  if (c.candidate_source_layer >= 0) {
    document["candidate_source_layer"] = c.candidate_source_layer;
    document["candidate_topk_blocks"] = c.candidate_topk_blocks;
    document["candidate_block_size"] = c.candidate_block_size;
  }
  return document;
}

/// Hugging Face names.
inline nlohmann::json released_document(const V32Config& c) {
  nlohmann::json document = {{"model_type", "deepseek_v32"},
                             {"hidden_size", c.dim},
                             {"num_hidden_layers", c.n_layers},
                             {"num_attention_heads", c.n_heads},
                             {"q_lora_rank", c.q_lora_rank},
                             {"kv_lora_rank", c.kv_lora_rank},
                             {"qk_nope_head_dim", c.qk_nope_head_dim},
                             {"qk_rope_head_dim", c.qk_rope_head_dim},
                             {"v_head_dim", c.v_head_dim},
                             {"rms_norm_eps", c.norm_eps},
                             {"rope_theta", c.rope_theta},
                             {"index_n_heads", c.index_n_heads},
                             {"index_head_dim", c.index_head_dim},
                             {"index_topk", c.index_topk},
                             {"num_nextn_predict_layers", c.n_draft_layers},
                             {"quantization_config", {{"weight_block_size", {128, 128}}}}};
  if (c.ue8m0_scales) document["quantization_config"]["scale_fmt"] = "ue8m0";
  if (c.original_seq_len > 0) {
    document["rope_scaling"] = {{"type", "yarn"},
                                {"factor", c.rope_factor},
                                {"beta_fast", c.beta_fast},
                                {"beta_slow", c.beta_slow},
                                {"mscale", c.mscale},
                                {"mscale_all_dim", c.mscale},
                                {"original_max_position_embeddings", c.original_seq_len}};
  }
  return document;
}

/// DeepSeek's inference configuration, which has no model_type.
inline nlohmann::json inference_document(const V32Config& c) {
  nlohmann::json document = {{"dtype", c.weight_type == WeightType::bf16 ? "bf16" : "fp8"},
                             {"dim", c.dim},
                             {"n_layers", c.n_layers},
                             {"n_heads", c.n_heads},
                             {"q_lora_rank", c.q_lora_rank},
                             {"kv_lora_rank", c.kv_lora_rank},
                             {"qk_nope_head_dim", c.qk_nope_head_dim},
                             {"qk_rope_head_dim", c.qk_rope_head_dim},
                             {"v_head_dim", c.v_head_dim},
                             {"norm_eps", c.norm_eps},
                             {"rope_theta", c.rope_theta},
                             {"rope_factor", c.rope_factor},
                             {"beta_fast", c.beta_fast},
                             {"beta_slow", c.beta_slow},
                             {"mscale", c.mscale},
                             {"original_seq_len", c.original_seq_len},
                             {"index_n_heads", c.index_n_heads},
                             {"index_head_dim", c.index_head_dim},
                             {"index_topk", c.index_topk},
                             {"num_nextn_predict_layers", c.n_draft_layers}};
  if (c.ue8m0_scales) document["scale_fmt"] = "ue8m0";
  return document;
}

inline nlohmann::json released_document(const Config& config) {
  return std::visit([](const auto& c) { return released_document(c); }, config);
}
inline nlohmann::json inference_document(const Config& config) {
  return std::visit([](const auto& c) { return inference_document(c); }, config);
}

}  // namespace skim::test

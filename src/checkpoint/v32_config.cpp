// Which V3.2 configurations make sense, and some well-known ones.
#include <bit>

#include "checkpoint/config_models.hpp"
#include "checkpoint/config_rules.hpp"

namespace skim {
namespace {

void check_shape(const V32Config& c) {
  check_positive("dim", c.dim);
  check_range("n_layers", c.n_layers, 1, kMostLayers);
  check_range("the number of draft layers", c.n_draft_layers, 0, kMostDraftLayers);
  check_positive("n_heads", c.n_heads);
  check_positive("q_lora_rank", c.q_lora_rank);
  check_positive("kv_lora_rank", c.kv_lora_rank);
  check_positive("qk_nope_head_dim", c.qk_nope_head_dim);
  check_positive("qk_rope_head_dim", c.qk_rope_head_dim);
  check_positive("v_head_dim", c.v_head_dim);
  check_multiple("kv_lora_rank", c.kv_lora_rank, "quantization group of latents", 128);
  check_multiple("qk_rope_head_dim", c.qk_rope_head_dim, "pairs are rotated", 2);
  const std::int64_t heads = c.n_heads;
  check_weight("n_heads * (qk_nope_head_dim + qk_rope_head_dim)",
               heads * (std::int64_t{c.qk_nope_head_dim} + c.qk_rope_head_dim), "q_lora_rank", c.q_lora_rank);
  check_weight("n_heads * (qk_nope_head_dim + v_head_dim)", heads * (std::int64_t{c.qk_nope_head_dim} + c.v_head_dim),
               "kv_lora_rank", c.kv_lora_rank);
  check_weight("n_heads * v_head_dim", heads * c.v_head_dim, "dim", c.dim);
}

/// Bounds keep frequencies, angles and the softmax scale finite in float32.
void check_rope(const V32Config& c) {
  check_number("norm_eps", c.norm_eps, 0, 1);
  check_number("rope_theta", c.rope_theta, 1, 1e12);
  if (c.original_seq_len < 0) refuse("original_seq_len is {}, expected 0 (no YaRN) or more", c.original_seq_len);
  if (c.original_seq_len == 0) return;
  check_number("rope_factor", c.rope_factor, 1e-6, 1e6);
  check_number("beta_fast", c.beta_fast, 1e-6, 1e6);
  check_number("beta_slow", c.beta_slow, 1e-6, 1e6);
  check_number("mscale", c.mscale, -1e6, 1e6);
  if (c.rope_theta <= 1) {
    refuse("rope_theta is {:g}, expected more than 1 with YaRN (original_seq_len {})", c.rope_theta,
           c.original_seq_len);
  }
}

void check_index(const V32Config& c) {
  check_positive("index_n_heads", c.index_n_heads);
  check_positive("index_head_dim", c.index_head_dim);
  check_positive("index_topk", c.index_topk);
  if (!std::has_single_bit(static_cast<unsigned>(c.index_head_dim)) || c.index_head_dim > 128) {
    refuse("index_head_dim is {}, expected a power of two (Hadamard transform) of at most 128 (one scale per key)",
           c.index_head_dim);
  }
  check_weight("index_n_heads * index_head_dim", std::int64_t{c.index_n_heads} * c.index_head_dim, "q_lora_rank",
               c.q_lora_rank);
  check_weight("index_n_heads", c.index_n_heads, "dim", c.dim);
  if (c.qk_rope_head_dim > c.index_head_dim) {
    refuse("qk_rope_head_dim is {}, more than index_head_dim {}", c.qk_rope_head_dim, c.index_head_dim);
  }
}

}  // namespace

void check_config(const V32Config& config) {
  check_shape(config);
  check_rope(config);
  check_index(config);
}

std::string canonical_text(const V32Config& c) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", c.dim, c.n_heads, c.q_lora_rank,
                     c.kv_lora_rank, c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim, c.norm_eps, c.rope_theta,
                     c.rope_factor, c.beta_fast, c.beta_slow, c.mscale, c.original_seq_len, c.index_n_heads,
                     c.index_head_dim, c.index_topk, c.ue8m0_scales);
}

V32Config v32_config() {
  return {.dim = 7168,
          .n_layers = 61,
          .n_heads = 128,
          .q_lora_rank = 1536,
          .kv_lora_rank = 512,
          .qk_nope_head_dim = 128,
          .qk_rope_head_dim = 64,
          .v_head_dim = 128,
          .index_n_heads = 64,
          .index_head_dim = 128,
          .index_topk = 2048};
}

V32Config v32_tiny_config() {
  return {.dim = 128,
          .n_layers = 2,
          .n_heads = 4,
          .q_lora_rank = 64,
          .kv_lora_rank = 128,
          .qk_nope_head_dim = 32,
          .qk_rope_head_dim = 16,
          .v_head_dim = 32,
          .rope_factor = 4,
          .original_seq_len = 16,
          .index_n_heads = 4,
          .index_head_dim = 64,
          .index_topk = 8};
}

}  // namespace skim

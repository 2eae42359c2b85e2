// Which V4.1 configurations make sense, and some well-known ones.
#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoint/config_models.hpp"
#include "checkpoint/config_rules.hpp"

namespace skim {
namespace {

void check_shape(const V41Config& c) {
  check_positive("dim", c.dim);
  check_range("n_layers", c.n_layers, 1, kMostLayers);
  check_range("the number of draft layers", c.n_draft_layers, 0, kMostDraftLayers);
  check_positive("n_heads", c.n_heads);
  check_positive("head_dim", c.head_dim);
  check_positive("rope_head_dim", c.rope_head_dim);
  check_positive("q_lora_rank", c.q_lora_rank);
  check_positive("o_groups", c.o_groups);
  check_positive("o_lora_rank", c.o_lora_rank);
  check_positive("window_size", c.window_size);
  check_multiple("head_dim", c.head_dim, "quantization group of window rows", 32);
  check_multiple("n_heads", c.n_heads, "o_groups", c.o_groups);
  check_multiple("rope_head_dim", c.rope_head_dim, "adjacent pairs are rotated", 2);
  if (c.rope_head_dim > c.head_dim) refuse("rope_head_dim is {}, more than head_dim {}", c.rope_head_dim, c.head_dim);
  const std::int64_t query_width = std::int64_t{c.n_heads} * c.head_dim;
  check_weight("n_heads * head_dim", query_width, "q_lora_rank", c.q_lora_rank);
  check_weight("n_heads * head_dim", query_width, "o_lora_rank", c.o_lora_rank);
  check_weight("o_groups * o_lora_rank", std::int64_t{c.o_groups} * c.o_lora_rank, "dim", c.dim);
}

/// Bounds keep frequencies and angles finite in float32.
void check_rope(const V41Config& c) {
  check_number("norm_eps", c.norm_eps, 0, 1);
  check_number("rope_theta", c.rope_theta, 1, 1e12);
  check_number("compress_rope_theta", c.compress_rope_theta, 1, 1e12);
  if (c.original_seq_len < 0) refuse("original_seq_len is {}, expected 0 (no YaRN) or more", c.original_seq_len);
  if (c.original_seq_len == 0) return;
  check_number("rope_factor", c.rope_factor, 1e-6, 1e6);
  check_number("beta_fast", c.beta_fast, 1e-6, 1e6);
  check_number("beta_slow", c.beta_slow, 1e-6, 1e6);
  if (c.compress_rope_theta <= 1) {
    refuse("compress_rope_theta is {:g}, expected more than 1 with YaRN (original_seq_len {})", c.compress_rope_theta,
           c.original_seq_len);
  }
}

void check_ratios(const V41Config& c) {
  const auto entries = static_cast<std::int64_t>(c.compress_ratios.size());
  const std::int64_t needed = static_cast<std::int64_t>(c.n_layers) + c.n_draft_layers;
  if (entries != needed) {
    refuse("compress_ratios has {} entries, expected {} ({} layers and {} draft layers)", entries, needed, c.n_layers,
           c.n_draft_layers);
  }
  for (int layer = 0; layer < c.layer_count(); ++layer) {
    if (c.ratio(layer) < 0 || c.ratio(layer) > 4096) {
      refuse("compress_ratios[{}] is {}, expected 0 to 4096", layer, c.ratio(layer));
    }
    if (layer >= c.n_layers && c.ratio(layer) != 0) {
      refuse("compress_ratios[{}] is {}, expected 0: layers from {} on are draft layers", layer, c.ratio(layer),
             c.n_layers);
    }
  }
}

void check_source_list(const V41Config& c, std::string_view field, const std::vector<int>& sources) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] < 0 || sources[i] >= c.n_layers) {
      refuse("{} names layer {}, expected 0 to {}", field, sources[i], c.n_layers - 1);
    }
    if (i > 0 && sources[i] <= sources[i - 1]) {
      refuse("{} has layer {} after layer {}, expected ascending layers", field, sources[i], sources[i - 1]);
    }
    if (c.ratio(sources[i]) == 0) refuse("{} names layer {}, whose compress_ratio is 0", field, sources[i]);
  }
}

bool contains(const std::vector<int>& list, int value) { return std::binary_search(list.begin(), list.end(), value); }

/// Last of `sources` at or before `layer`, of any ratio (or of the layer's own).
int last_source(const V41Config& c, const std::vector<int>& sources, int layer, bool same_ratio) {
  int found = -1;
  for (const int source : sources) {
    if (source <= layer && (!same_ratio || c.ratio(source) == c.ratio(layer))) found = source;
  }
  return found;
}

void check_sources(const V41Config& c) {
  check_source_list(c, "kv_source_layers", c.kv_source_layers);
  check_source_list(c, "index_source_layers", c.index_source_layers);
  for (const int layer : c.kv_source_layers) {
    if (!contains(c.index_source_layers, layer)) {
      refuse("kv_source_layers names layer {}, but index_source_layers does not: nothing would own its index keys",
             layer);
    }
  }
  for (int layer = 0; layer < c.n_layers; ++layer) {
    if (c.ratio(layer) == 0) continue;
    if (last_source(c, c.kv_source_layers, layer, true) < 0) {
      refuse("layer {} has compress_ratio {}, but no layer of that ratio up to it is in kv_source_layers", layer,
             c.ratio(layer));
    }
    const int selector = last_source(c, c.index_source_layers, layer, false);
    if (c.ratio(selector) != c.ratio(layer)) {
      refuse("layer {} has compress_ratio {}, but would use the selection of layer {}, whose compress_ratio is {}",
             layer, c.ratio(layer), selector, c.ratio(selector));
    }
  }
}

void check_index(const V41Config& c) {
  check_positive("index_n_heads", c.index_n_heads);
  check_positive("index_head_dim", c.index_head_dim);
  check_positive("index_topk", c.index_topk);
  check_weight("index_n_heads * index_head_dim", std::int64_t{c.index_n_heads} * c.index_head_dim, "q_lora_rank",
               c.q_lora_rank);
  check_multiple("index_head_dim", c.index_head_dim, "quantization group of index keys", 32);
  if (c.rope_head_dim > c.index_head_dim) {
    refuse("rope_head_dim is {}, more than index_head_dim {}", c.rope_head_dim, c.index_head_dim);
  }
}

void check_candidates(const V41Config& c) {
  const int source = c.candidate_source_layer;
  if (source == -1) return;
  if (!contains(c.index_source_layers, source)) {
    refuse("candidate_source_layer is {}, expected -1 or one of index_source_layers", source);
  }
  check_positive("candidate_topk_blocks", c.candidate_topk_blocks);
  check_positive("candidate_block_size", c.candidate_block_size);
  const std::int64_t blocks = c.candidate_topk_blocks, size = c.candidate_block_size;
  // The pinned newest block may hold a single visible position.
  const std::int64_t surely_visible = blocks * size - (size - 1);
  if (surely_visible < c.index_topk) {
    refuse(
        "candidate_topk_blocks {} of candidate_block_size {} are only sure to hold {} visible positions, fewer than "
        "index_topk {}",
        blocks, size, surely_visible, c.index_topk);
  }
  for (const int layer : c.index_source_layers) {
    if (layer > source && c.ratio(layer) != c.ratio(source)) {
      refuse("index source {} has compress_ratio {}, but its candidates come from layer {}, whose compress_ratio is {}",
             layer, c.ratio(layer), source, c.ratio(source));
    }
  }
}

}  // namespace

void check_config(const V41Config& config) {
  check_shape(config);
  check_rope(config);
  check_ratios(config);
  check_sources(config);
  if (!config.kv_source_layers.empty()) check_index(config);
  check_candidates(config);
}

std::string canonical_text(const V41Config& c) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", c.dim, c.n_heads,
                     c.head_dim, c.rope_head_dim, c.q_lora_rank, c.o_groups, c.o_lora_rank, c.window_size, c.norm_eps,
                     c.rope_theta, c.compress_rope_theta, c.rope_factor, c.beta_fast, c.beta_slow, c.original_seq_len,
                     c.compress_ratios, c.kv_source_layers, c.index_source_layers, c.index_n_heads, c.index_head_dim,
                     c.index_topk, c.candidate_source_layer, c.candidate_topk_blocks, c.candidate_block_size);
}

V41Config v41_flash_config() {
  V41Config c = {.dim = 5120,
                 .n_layers = 40,
                 .n_draft_layers = 3,
                 .n_heads = 64,
                 .head_dim = 512,
                 .rope_head_dim = 64,
                 .q_lora_rank = 1280,
                 .o_groups = 8,
                 .o_lora_rank = 1024,
                 .window_size = 128,
                 .norm_eps = 1e-20,
                 .rope_theta = 1e4,
                 .compress_rope_theta = 1.6e5,
                 .rope_factor = 16,
                 .original_seq_len = 65536,
                 .compress_ratios = {},
                 .kv_source_layers = {2, 8, 14, 20},
                 .index_source_layers = {2, 8, 14, 20, 24, 28, 32, 36},
                 .index_n_heads = 32,
                 .index_head_dim = 128,
                 .index_topk = 512,
                 .candidate_source_layer = 20,
                 .candidate_topk_blocks = 2048,
                 .candidate_block_size = 8};
  c.compress_ratios.assign(2, 0);
  c.compress_ratios.insert(c.compress_ratios.end(), 18, 2);
  c.compress_ratios.insert(c.compress_ratios.end(), 20, 1);
  c.compress_ratios.insert(c.compress_ratios.end(), 3, 0);
  return c;
}

V41Config v41_tiny_config() {
  V41Config c = {.dim = 128,
                 .n_layers = 7,
                 .n_draft_layers = 1,
                 .n_heads = 4,
                 .head_dim = 64,
                 .rope_head_dim = 16,
                 .q_lora_rank = 64,
                 .o_groups = 2,
                 .o_lora_rank = 32,
                 .window_size = 8,
                 .norm_eps = 1e-20,
                 .rope_theta = 1e4,
                 .compress_rope_theta = 1.6e5,
                 .rope_factor = 4,
                 .original_seq_len = 16,
                 .compress_ratios = {0, 0, 2, 2, 1, 1, 1, 0},
                 .kv_source_layers = {2, 4},
                 .index_source_layers = {2, 4, 5},
                 .index_n_heads = 4,
                 .index_head_dim = 64,
                 .index_topk = 8,
                 .candidate_source_layer = 4,
                 .candidate_topk_blocks = 6,
                 .candidate_block_size = 2};
  return c;
}

}  // namespace skim

// What case files of V4.1 record: docs/cases.md.
#include "models/v41/v41.hpp"

namespace skim::v41 {

std::vector<RecordedKind> recorded(const Config& config) {
  using enum RecordedUse;
  using enum RowMeaning;
  const V41Config& c = config_of(config);
  const std::int64_t heads = c.n_heads, index_heads = c.index_n_heads;
  return {{"qr", values, token, c.q_lora_rank},
          {"q_rope", values, token, heads * c.head_dim},
          {"window_kv", window, slot, c.head_dim},
          {"latent", values, group, c.head_dim},
          {"index_k_new", values, group, c.index_head_dim},
          {"index_q", values, token, index_heads * c.index_head_dim},
          {"index_weights", values, token, index_heads},
          {.name = "index_score", .use = scores, .allowed = allowance(5e-3, 2e-2)},
          {.name = "candidates", .use = candidates, .dtypes = "BOOL"},
          {"compress_kv_new", values, group, c.head_dim},
          {.name = "topk_idxs", .use = selection, .dtypes = "I32 or I64"},
          {"o", values, token, heads * c.head_dim, allowance(5e-3, 1e-2)},
          {"o_lora", values, token, std::int64_t{c.o_groups} * c.o_lora_rank},
          {"out", values, token, c.dim, {.reference = {5e-3, 2e-2}, .optimized = {1e-2, 4e-2}}}};
}

}  // namespace skim::v41

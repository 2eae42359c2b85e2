// What case files of V4 record: docs/cases.md.
#include "models/v4/v4.hpp"

namespace skim::v4 {

std::vector<RecordedKind> recorded(const Config& config) {
  using enum RecordedUse;
  using enum RowMeaning;
  const V4Config& c = config_of(config);
  const std::int64_t heads = c.n_heads, index_heads = c.index_n_heads, head = c.head_dim, key = c.index_head_dim;
  return {{.name = "qr", .width = c.q_lora_rank},
          {.name = "q_rope", .width = heads * head, .heads = heads},
          {.name = "window_kv", .use = window, .meaning = slot, .width = head, .code = true},
          {.name = "latent", .meaning = group, .width = head},
          {.name = "compress_kv_new", .meaning = group, .width = head, .code = true},
          {.name = "index_latent", .meaning = group, .width = key},
          {.name = "index_k_new", .meaning = group, .width = key, .code = true},
          {.name = "index_q", .width = index_heads * key, .heads = index_heads, .code = true},
          {.name = "index_weights", .width = index_heads},
          {.name = "index_score", .use = scores, .allowed = allowance(5e-3, 2e-2)},
          {.name = "topk_idxs", .use = selection, .dtypes = "I32 or I64"},
          {.name = "o", .width = heads * head, .allowed = allowance(5e-3, 1e-2), .heads = heads},
          {.name = "o_lora", .width = std::int64_t{c.o_groups} * c.o_lora_rank, .allowed = allowance(5e-3, 1e-2)},
          {.name = "out", .width = c.dim, .allowed = {.reference = {5e-3, 2e-2}, .optimized = {1e-2, 4e-2}}}};
}

}  // namespace skim::v4

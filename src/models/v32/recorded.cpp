// What case files of V3.2 record: docs/cases.md.
#include "models/v32/v32.hpp"

namespace skim::v32 {

/// All kernel sets take the absorbed path, the recordings two: the reference set is no closer than others.
std::vector<RecordedKind> recorded(const Config& config) {
  using enum RecordedUse;
  const V32Config& c = config_of(config);
  const std::int64_t heads = c.n_heads, index_heads = c.index_n_heads, key = c.index_head_dim;
  constexpr Allowance::Pair kOut = {1.5e-2, 4e-2};
  return {{.name = "qr", .width = c.q_lora_rank},
          {.name = "kv_new", .width = c.kv_lora_rank, .code = true},
          {.name = "k_pe_new", .width = c.qk_rope_head_dim},
          {.name = "index_k_new", .width = key, .dtypes = "F8_E4M3", .code = true, .factors = "index_k_scale_new"},
          {.name = "index_k_scale_new", .width = 1, .code = true},
          {.name = "index_q",
           .width = index_heads * key,
           .dtypes = "F8_E4M3",
           .heads = index_heads,
           .code = true,
           .factors = "index_weights"},
          {.name = "index_weights", .width = index_heads, .code = true},
          {.name = "index_score", .use = scores},
          {.name = "topk_idxs", .use = selection, .dtypes = "I32 or I64"},
          {.name = "o", .width = heads * c.v_head_dim, .allowed = allowance(1.2e-2, 1.2e-2), .heads = heads},
          {.name = "out", .width = c.dim, .allowed = {kOut, kOut}}};
}

}  // namespace skim::v32

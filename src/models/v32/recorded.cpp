// What case files of V3.2 record: docs/cases.md.
#include "models/v32/v32.hpp"

namespace skim::v32 {

/// All kernel sets take the absorbed path, the recordings two: the reference set is no closer than others.
std::vector<RecordedKind> recorded(const Config& config) {
  using enum RecordedUse;
  using enum RowMeaning;
  const V32Config& c = config_of(config);
  const std::int64_t heads = c.n_heads, index_heads = c.index_n_heads;
  constexpr Allowance::Pair kOut = {1.5e-2, 4e-2};
  return {{"qr", values, token, c.q_lora_rank},
          {"kv_new", values, token, c.kv_lora_rank},
          {"k_pe_new", values, token, c.qk_rope_head_dim},
          {"index_k_new", values, token, c.index_head_dim, {}, "F8_E4M3"},
          {"index_k_scale_new", values, token, 1},
          {"index_q", values, token, index_heads * c.index_head_dim, {}, "F8_E4M3"},
          {"index_weights", values, token, index_heads},
          {.name = "index_score", .use = scores},
          {.name = "topk_idxs", .use = selection, .dtypes = "I32 or I64"},
          {"o", values, token, heads * c.v_head_dim, allowance(1.2e-2, 1.2e-2)},
          {"out", values, token, c.dim, {kOut, kOut}}};
}

}  // namespace skim::v32

// Watching a layer at work, and correcting what it selects.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "skim/tensor.hpp"

namespace skim {

/// Rows of one named tensor that belong to one sequence of the batch.
struct TraceRows {
  int layer = 0;
  std::string_view name;     ///< As in docs/cases.md: qr, q_rope, window_kv, latent, index_q, ..., out. Of V3.2 index_q
                             ///< and index_k_new are what the codes stand for, without their scales.
  int sequence = 0;          ///< Index in the list given to KvCache::begin.
  std::int64_t first = 0;    ///< Position of the first row, or group number for latent, index_k_new, compress_kv_new.
  View<const bf16, 2> rows;  ///< Heads and groups of heads are folded into the width.
  View<const float, 2> floats;  ///< Instead of `rows` (then without data): V3.2 index_weights, index_k_scale_new.
};

/// Scores of one query: -inf or absent where the query may not look. `scores[t]` belongs to compressed position t.
struct TraceScores {
  int layer = 0;
  int sequence = 0;
  std::int64_t position = 0;  ///< Of the query.
  std::span<const float> scores;
};

/// What one query chose: compressed positions or candidate blocks, ascending. May be replaced.
struct TraceSelection {
  int layer = 0;
  int sequence = 0;
  std::int64_t position = 0;  ///< Of the query.
  std::int64_t limit = 0;     ///< Entries are below this.
  /// A replacement stays ascending, below `limit`, and no longer than top-k or the number of candidate blocks.
  std::vector<std::int32_t>& chosen;
};

/// Attention of consecutive tokens of one sequence, before the output projection. An engine that holds a part of the
/// context elsewhere merges what it computed there (merge_attention) and puts the result in place.
struct TraceAttention {
  int layer = 0;
  int sequence = 0;
  std::int64_t first = 0;  ///< Position of the first token.
  /// [tokens, heads, width], may be replaced. V4.1: width head_dim, not rotated back yet, a sink counted in. V3.2:
  /// width v_head_dim.
  View<bf16, 3> out;
  /// [tokens, heads]: natural logarithm of the sum of exp(scaled logit) over the rows attended to, the sink not among
  /// them; -inf for no rows.
  View<const float, 2> log_sum;
  std::span<const float> sink;  ///< [heads]; empty if the model has none.
};

/// Passed to Model::forward. Every function does nothing unless overridden. Calls come from the calling thread, in
/// order of computation; large batches arrive in pieces. A replaced selection is used for everything after it in the
/// batch.
class Trace {
 public:
  virtual ~Trace() = default;
  /// Whether `rows` wants this tensor; unwanted ones are not even unpacked.
  virtual bool wants(std::string_view name) { return static_cast<void>(name), false; }
  virtual void rows(const TraceRows&) {}
  /// Index scores before the candidate mask. Asked for with wants("index_score").
  virtual void scores(const TraceScores&) {}
  /// Asked for with wants("attention").
  virtual void attention(const TraceAttention&) {}
  virtual void candidates(const TraceSelection&) {}
  virtual void selection(const TraceSelection&) {}
  /// Asked between stretches of tokens: true makes forward throw Error{cancelled}. The batch can then be dropped, or
  /// the layer run again.
  virtual bool cancelled() { return false; }
  /// `done` of `total` tokens of the batch have passed through the layer.
  virtual void progress(int layer, std::int64_t done, std::int64_t total) {
    static_cast<void>(layer), static_cast<void>(done), static_cast<void>(total);
  }
};

}  // namespace skim

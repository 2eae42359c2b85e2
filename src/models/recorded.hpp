// What a family's case files record (docs/cases.md): the kinds of tensors, their rows, types and allowances.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace skim {

/// What the rows of a recorded tensor stand for, and so how many there are.
enum class RowMeaning {
  token,  ///< Tokens of the call; if some rows were kept, those or the last few of those.
  group,  ///< Groups that the call closes, or the last few of them.
  slot,   ///< At position 0 tokens of the call, or the last few of them; later slots of the ring, or the first few.
};

/// What a replay does with a kind of recorded tensor.
enum class RecordedUse {
  values,      ///< Compares the numbers of each row.
  window,      ///< The same; a call at position 0 records rows of its tokens, later ones the slots of the ring.
  scores,      ///< Compares one score per visible compressed position, and judges selections by them.
  candidates,  ///< Judges candidate blocks, then puts them in place.
  selection,   ///< Judges selected positions, then puts them in place.
};

/// Largest relative error of a tensor, by kernel set and by the type of the layer's last weight.
struct Allowance {
  struct Pair {
    double bf16 = 5e-3, fp8 = 5e-3;
  };
  Pair reference;            ///< The reference set.
  Pair optimized;            ///< All others.
  double several_ranks = 0;  ///< At least this much, if the recorded implementation ran on several ranks.

  double of(bool is_reference, bool is_fp8) const {
    const Pair& pair = is_reference ? reference : optimized;
    return is_fp8 ? pair.fp8 : pair.bf16;
  }
};
/// Of kinds for which the type of the weights makes no difference.
constexpr Allowance allowance(double reference, double optimized) {
  return {{reference, reference}, {optimized, optimized}};
}

/// A kind of tensor that case files of a model record.
struct RecordedKind {
  std::string_view name;
  RecordedUse use = RecordedUse::values;
  RowMeaning meaning = RowMeaning::token;
  std::int64_t width = -1;                  ///< Elements per row; -1: depends on the call.
  Allowance allowed = {};                   ///< Of values, window and scores.
  std::string_view dtypes = "BF16 or F32";  ///< Those it may have, in words.
  std::int64_t heads = 1;                   ///< Parts of a row, each of which is held to the bound on rows.
  bool code = false;                        ///< Quantized: flipped codes may move a row further.
  /// Tensor with one factor per head: if it was recorded too, the product is judged instead of either.
  std::string_view factors = {};

  bool is_set() const { return use == RecordedUse::candidates || use == RecordedUse::selection; }
};

/// How a row of recorded `topk_idxs` lists what a query attends to.
enum class SelectionFormat {
  window_first,  ///< Window slots, then compressed positions behind an offset; -1 is nothing.
  positions,     ///< Positions, filled up with later ones that the query cannot see.
};

}  // namespace skim

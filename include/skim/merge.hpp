// Putting attention over parts of a context together.
#pragma once

#include <span>

#include "skim/tensor.hpp"

namespace skim {

/// Attention over one part of the rows of some tokens.
struct AttentionPart {
  View<const float, 3> out;      ///< [tokens, heads, width]: averages with weights exp(logit) that add up to 1.
  View<const float, 2> log_sum;  ///< [tokens, heads]: natural logarithm of the sum of exp(logit); -inf for no rows.
  std::span<const float> sink;   ///< [heads]: a sink that `out` has in its denominator; `log_sum` has it not. Or empty.
};

/// out = the attention over all rows together; log_sum = its logarithm of the sum of exp(logit), without any sink. Both
/// may be memory of the parts, as when one part is merged into another. A sink ([heads], or empty) is counted into the
/// denominator of the result once; a model's sink belongs either here or in one part. Tokens and heads without any row
/// get zeros and -inf. Sums are float32, parts in their order.
/// Throws Error{invalid_argument} naming the part whose shape does not fit or that has no data, Error{out_of_memory}.
void merge_attention(std::span<const AttentionPart> parts, std::span<const float> sink, View<float, 3> out,
                     View<float, 2> log_sum);

}  // namespace skim

// Attention over the window and the selected rows, after the published sparse_attn_kernel (V4.1) and MLA.forward
// (V3.2).
#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/bf16.hpp"
#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {
namespace {

constexpr float kLowestMaximum = -1e30f;

/// Running softmax of one head.
struct HeadState {
  float maximum = kLowestMaximum;
  float denominator = 0;
};

void widen_row(const AttendShape& shape, const AttendQuery& query, std::int64_t i, float* row) {
  unpack_row(query.layout(shape, i), query.row(i), row);
}

// ---- V4.1: blocks with a running maximum ----------------------------------------------------------------------------

/// Takes `count` widened rows [count, key_width] into the average `out` [value_width] of one head.
void attend_block(const AttendShape& shape, const bf16* query, const float* rows, std::int64_t count, HeadState& head,
                  float* out) {
  float probability[kAttendBlock];
  float maximum = head.maximum;
  for (std::int64_t i = 0; i < count; ++i) {
    const float* row = rows + i * shape.key_width;
    float dot = 0;
    for (int c = 0; c < shape.key_width; ++c) dot += to_float(query[c]) * row[c];
    probability[i] = dot * shape.scale;
    maximum = std::max(maximum, probability[i]);
  }
  const float rescale = std::exp(head.maximum - maximum);
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    probability[i] = std::exp(probability[i] - maximum);
    sum += probability[i];
  }
  for (int c = 0; c < shape.value_width; ++c) out[c] *= rescale;
  for (std::int64_t i = 0; i < count; ++i) {
    const float* row = rows + i * shape.key_width;
    const float weight = round_bf16(probability[i]);
    for (int c = 0; c < shape.value_width; ++c) out[c] += weight * row[c];
  }
  head.denominator = head.denominator * rescale + sum;
  head.maximum = maximum;
}

/// Of rows with this largest logit, whose exp(logit - maximum) add up to `denominator`.
float log_sum(float maximum, float denominator) {
  return denominator == 0 ? -std::numeric_limits<float>::infinity() : maximum + std::log(denominator);
}

void finish_head(const AttendShape& shape, int h, HeadState head, const float* average, bf16* out) {
  if (shape.sink != nullptr) head.denominator += std::exp(shape.sink[h] - head.maximum);
  for (int c = 0; c < shape.value_width; ++c) {
    out[c] = head.denominator > 0 || std::isnan(head.denominator) ? to_bf16(average[c] / head.denominator) : bf16{0};
  }
}

void attend_in_blocks(const AttendShape& shape, const AttendQuery& query, float* rows, float* average,
                      HeadState* heads) {
  std::fill_n(average, static_cast<std::int64_t>(shape.heads) * shape.value_width, 0.0f);
  std::fill_n(heads, shape.heads, HeadState{});
  const std::int64_t total = query.rows();
  for (std::int64_t first = 0; first < total; first += kAttendBlock) {
    const std::int64_t count = std::min<std::int64_t>(kAttendBlock, total - first);
    for (std::int64_t i = 0; i < count; ++i) widen_row(shape, query, first + i, rows + i * shape.key_width);
    for (int h = 0; h < shape.heads; ++h) {
      attend_block(shape, query.query + static_cast<std::int64_t>(h) * shape.key_width, rows, count, heads[h],
                   average + static_cast<std::int64_t>(h) * shape.value_width);
    }
  }
  for (int h = 0; h < shape.heads; ++h) {
    const std::int64_t offset = static_cast<std::int64_t>(h) * shape.value_width;
    if (query.log_sum != nullptr) query.log_sum[h] = log_sum(heads[h].maximum, heads[h].denominator);
    finish_head(shape, h, heads[h], average + offset, query.out + offset);
  }
}

// ---- V3.2: one softmax over all rows, bf16 after every step
// -----------------------------------------------------------

float dot(const bf16* query, const float* row, int first, int last) {
  float sum = 0;
  for (int c = first; c < last; ++c) sum += to_float(query[c]) * row[c];
  return sum;
}

/// logits[total] of one head become probabilities. Returns their log_sum.
float soften(float* logits, std::int64_t total) {
  float maximum = kLowestMaximum, denominator = 0;
  for (std::int64_t i = 0; i < total; ++i) maximum = std::max(maximum, logits[i]);
  for (std::int64_t i = 0; i < total; ++i) denominator += logits[i] = std::exp(logits[i] - maximum);
  for (std::int64_t i = 0; i < total; ++i) logits[i] = round_bf16(logits[i] / denominator);
  return log_sum(maximum, denominator);
}

/// Averages [heads, value_width] as bf16; zeros for a head whose log_sum is -inf: no row counts for anything.
void store_averages(const AttendShape& shape, const float* log_sums, const float* average, bf16* out) {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape.heads) * shape.value_width; ++i) {
    const bool counts = log_sums[i / shape.value_width] != -std::numeric_limits<float>::infinity();
    out[i] = counts ? to_bf16(average[i]) : bf16{0};
  }
}

/// row: [key_width], scratch; logits: [heads, total]; average: [heads, value_width]; log_sums: [heads]
void attend_at_once(const AttendShape& shape, const AttendQuery& query, float* row, float* logits, float* average,
                    float* log_sums) {
  const std::int64_t total = query.rows();
  for (std::int64_t i = 0; i < total; ++i) {
    widen_row(shape, query, i, row);
    for (int h = 0; h < shape.heads; ++h) {
      const bf16* head = query.query + static_cast<std::int64_t>(h) * shape.key_width;
      const float value_part = round_bf16(dot(head, row, 0, shape.value_width));
      const float other_part = round_bf16(dot(head, row, shape.value_width, shape.key_width));
      logits[h * total + i] = round_bf16(round_bf16(value_part + other_part) * shape.scale);
    }
  }
  std::fill_n(average, static_cast<std::int64_t>(shape.heads) * shape.value_width, 0.0f);
  for (int h = 0; h < shape.heads; ++h) {
    log_sums[h] = soften(logits + h * total, total);
  }
  if (query.log_sum != nullptr) std::copy_n(log_sums, shape.heads, query.log_sum);
  for (std::int64_t i = 0; i < total; ++i) {
    widen_row(shape, query, i, row);
    for (int h = 0; h < shape.heads; ++h) {
      float* sums = average + static_cast<std::int64_t>(h) * shape.value_width;
      for (int c = 0; c < shape.value_width; ++c) sums[c] += logits[h * total + i] * row[c];
    }
  }
  store_averages(shape, log_sums, average, query.out);
}

std::int64_t longest_list(std::span<const AttendQuery> queries) {
  std::int64_t longest = 0;
  for (const AttendQuery& query : queries) longest = std::max(longest, query.rows());
  return longest;
}

}  // namespace

void attend(Context& context, const AttendShape& shape, std::span<const AttendQuery> queries) {
  const bool in_blocks = shape.rounding == AttendRounding::exponentials;
  const std::int64_t row_floats = (in_blocks ? kAttendBlock : 1) * static_cast<std::int64_t>(shape.key_width);
  const std::int64_t average_floats = static_cast<std::int64_t>(shape.heads) * shape.value_width;
  const std::int64_t state_floats = in_blocks
                                        ? shape.heads * static_cast<std::int64_t>(sizeof(HeadState) / sizeof(float))
                                        : shape.heads * (longest_list(queries) + 1);
  context.reserve_thread_scratch((row_floats + average_floats + state_floats) *
                                 static_cast<std::int64_t>(sizeof(float)));
  parallel_for(context, static_cast<std::int64_t>(queries.size()), kAttendBlock * average_floats,
               [&](std::int64_t i, int thread) {
                 float* rows = context.thread_scratch<float>(thread);
                 float* average = rows + row_floats;
                 float* state = average + average_floats;
                 const AttendQuery& query = queries[static_cast<std::size_t>(i)];
                 if (in_blocks) {
                   attend_in_blocks(shape, query, rows, average, reinterpret_cast<HeadState*>(state));
                 } else {
                   attend_at_once(shape, query, rows, state + shape.heads, average, state);
                 }
               });
}

}  // namespace skim::reference

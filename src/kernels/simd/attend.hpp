// Attention. A block of rows is widened once for all heads of a task. Logits are products of rows by panels of heads,
// so that the softmax runs along heads; the values are products of probabilities by panels of columns of the same rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/parallel.hpp"
#include "kernels/simd/product.hpp"
#include "kernels/simd/rows.hpp"
#include "kernels/simd/scratch.hpp"

namespace skim::simd {

inline constexpr float kLowestMaximum = -1e30f;
// Elements of a logit that meet at one time: a panel of heads over them is 16 or 32 KiB.
inline constexpr std::int64_t kLogitStretch = 256;

/// Elements of the widest row that is widened, or of a query.
inline constexpr auto widest_row = [](const AttendShape& shape) {
  return std::max({shape.key_width, shape.window_layout.width, shape.selected_layout.width});
};

/// Where one task keeps what it works on. Heads are counted from the task's first, padded to whole panels with zeros.
template <class V>
struct AttendSpace {
  std::int64_t heads, key_depth, row_stride, value_stride;
  float* queries;      // [heads / kPanel, key_depth, kPanel]
  float* rows;         // [kAttendBlock, row_stride], zeros where no row is
  float* logits;       // [kAttendBlock, heads], then probabilities
  float* second;       // [kAttendBlock, heads], of logits that are rounded in parts
  float* average;      // [heads, value_stride]
  float* maximum;      // [heads]
  float* denominator;  // [heads]
  float* rescale;      // [heads]: what the block at hand makes of the average so far
  std::int64_t bytes;  // in all

  AttendSpace(const AttendShape& shape, std::int64_t head_count, std::byte* memory)
      : heads(round_up(head_count, kPanel<V>)),
        key_depth(round_up(shape.key_width, 2)),
        value_stride(round_up(shape.value_width, kPanel<V>)) {
    // An odd number of cache lines, so that the same columns of 64 rows lie in different cache sets.
    row_stride = std::max<std::int64_t>((round_up(widest_row(shape), 16) / 16 | 1) * 16, value_stride);
    ScratchPieces pieces(memory);
    queries = pieces.take<float>(heads * key_depth);
    rows = pieces.take<float>(kAttendBlock * row_stride);
    logits = pieces.take<float>(kAttendBlock * heads);
    second = pieces.take<float>(kAttendBlock * heads);
    average = pieces.take<float>(heads * value_stride);
    maximum = pieces.take<float>(heads);
    denominator = pieces.take<float>(heads);
    rescale = pieces.take<float>(heads);
    bytes = pieces.bytes();
  }
};

/// Query heads of bf16 [count, key_width] into panels.
template <class V>
void pack_queries(const AttendShape& shape, const bf16* query, std::int64_t count, const AttendSpace<V>& space) {
  std::fill_n(space.queries, space.heads * space.key_depth, 0.0f);
  for (std::int64_t h = 0; h < count; ++h) {
    float* to = space.queries + h / kPanel<V> * space.key_depth * kPanel<V> + h % kPanel<V>;
    for (std::int64_t k = 0; k < shape.key_width; ++k) to[k * kPanel<V>] = to_float(query[h * shape.key_width + k]);
  }
}

/// to[count, heads] = rows [count, first .. first + width) times queries.
template <class V>
void multiply_keys(const AttendSpace<V>& space, std::int64_t count, std::int64_t first, std::int64_t width, float* to) {
  const std::int64_t last = first + round_up(width, 2);
  for (std::int64_t panel = 0; panel < space.heads / kPanel<V>; ++panel) {
    for (std::int64_t k = first; k < last; k += kLogitStretch) {
      const LeftRows left{space.rows + k, space.row_stride, 1};
      const FloatPanels<V> right{space.queries + (panel * space.key_depth + k) * kPanel<V>, kPanel<V>, 0};
      const std::int64_t depth = std::min(kLogitStretch, last - k);
      const Sums out{to + panel * kPanel<V>, space.heads, 0};
      if (k == first) {
        multiply_panel<V, Into::replace>(left, right, count, depth, nullptr, out);
      } else {
        multiply_panel<V, Into::add>(left, right, count, depth, nullptr, out);
      }
    }
  }
}

/// Logits of `count` rows, scaled, from products multiply(first, width, to) over parts of the keys. Space: what
/// AttendSpace has under the names used; here and below heads are padded to whole vectors.
template <class V, class Space, class Multiply>
void compute_logits(const AttendShape& shape, const Space& space, std::int64_t count, Multiply multiply) {
  if (shape.rounding == AttendRounding::exponentials) {
    multiply(0, shape.key_width, space.logits);
    for (std::int64_t i = 0; i < count * space.heads; i += V::kLanes) {
      store<V>(space.logits + i, load<V>(space.logits + i) * shape.scale);
    }
    return;
  }
  multiply(0, shape.value_width, space.logits);
  const std::int64_t rest = shape.key_width - shape.value_width;
  if (rest > 0) multiply(shape.value_width, rest, space.second);
  for (std::int64_t i = 0; i < count * space.heads; i += V::kLanes) {
    const Floats<V> second = rest > 0 ? round_bf16<V>(load<V>(space.second + i)) : spread<V>(0.0f);
    const Floats<V> sum = round_bf16<V>(round_bf16<V>(load<V>(space.logits + i)) + second);
    store<V>(space.logits + i, round_bf16<V>(sum * shape.scale));
  }
}

/// Logits of `count` rows become probabilities relative to the new maximum of each head.
template <class V, class Space>
void soften(const Space& space, std::int64_t count) {
  for (std::int64_t h = 0; h < space.heads; h += V::kLanes) {
    const Floats<V> before = load<V>(space.maximum + h);
    Floats<V> maximum = before;
    for (std::int64_t i = 0; i < count; ++i) {
      maximum = V::larger(load<V>(space.logits + i * space.heads + h), maximum);  // a NaN is left to the exponential
    }
    Floats<V> sum = spread<V>(0.0f);
    for (std::int64_t i = 0; i < count; ++i) {
      float* const at = space.logits + i * space.heads + h;
      const Floats<V> probability = exp_negative<V>(load<V>(at) - maximum);
      sum += probability;
      store<V>(at, round_bf16<V>(probability));
    }
    const Floats<V> rescale = exp_negative<V>(before - maximum);
    store<V>(space.maximum + h, maximum);
    store<V>(space.rescale + h, rescale);
    store<V>(space.denominator + h, load<V>(space.denominator + h) * rescale + sum);
  }
}

/// average = average * rescale + probabilities^T rows.
template <class V>
void average_values(const AttendSpace<V>& space, std::int64_t heads, std::int64_t count) {
  std::int64_t depth = count;
  if (count % 2 == 1) {
    std::fill_n(space.logits + count * space.heads, space.heads, 0.0f);
    std::fill_n(space.rows + count * space.row_stride, space.row_stride, 0.0f);
    ++depth;
  }
  for (std::int64_t column = 0; column < space.value_stride; column += kPanel<V>) {
    multiply_panel<V, Into::rescale>({space.logits, 1, space.heads}, {space.rows + column, space.row_stride, 0}, heads,
                                     depth, space.rescale, {space.average + column, space.value_stride, 0});
  }
}

/// Average over denominator, and what else is asked about head h of the task.
template <class V, class Space>
void finish_head(const AttendShape& shape, const AttendQuery& query, std::int64_t first_head, std::int64_t h,
                 const Space& space) {
  const std::int64_t head = first_head + h;
  const float maximum = space.maximum[h];
  float denominator = space.denominator[h];
  if (query.log_sum != nullptr) {
    query.log_sum[head] = denominator == 0 ? -std::numeric_limits<float>::infinity() : maximum + std::log(denominator);
  }
  if (shape.sink != nullptr) denominator += std::exp(shape.sink[head] - maximum);
  bf16* const out = query.out + head * shape.value_width;
  if (denominator <= 0) {  // no row at all
    std::fill_n(out, shape.value_width, bf16{0});
    return;
  }
  float* const average = space.average + h * space.value_stride;
  for (std::int64_t c = 0; c < space.value_stride; c += V::kLanes) {
    store<V>(average + c, load<V>(average + c) / denominator);
  }
  store_sums<V>(average, shape.value_width, out);
}

/// Nothing seen so far. heads: of the task, without padding.
template <class Space>
void start_heads(const Space& space, std::int64_t heads) {
  std::fill_n(space.average, heads * space.value_stride, 0.0f);
  std::fill_n(space.maximum, space.heads, kLowestMaximum);
  std::fill_n(space.denominator, space.heads, 0.0f);
}

/// Some heads of one query.
struct AttendTask {
  const AttendQuery& query;
  std::int64_t first_head, heads;

  std::int64_t rows() const { return query.rows(); }
};

template <class V>
void attend_heads(const AttendShape& shape, const AttendTask& task, const AttendSpace<V>& space) {
  pack_queries(shape, task.query.query + task.first_head * shape.key_width, task.heads, space);
  std::fill_n(space.rows, kAttendBlock * space.row_stride, 0.0f);
  start_heads(space, task.heads);
  for (std::int64_t first = 0; first < task.rows(); first += kAttendBlock) {
    const std::int64_t count = std::min<std::int64_t>(kAttendBlock, task.rows() - first);
    for (std::int64_t i = 0; i < count; ++i) {
      widen_row<V>(task.query.layout(shape, first + i), task.query.row(first + i), space.rows + i * space.row_stride);
    }
    compute_logits<V>(shape, space, count, [&](std::int64_t part, std::int64_t width, float* to) {
      multiply_keys(space, count, part, width, to);
    });
    soften<V>(space, count);
    average_values(space, task.heads, count);
  }
  for (std::int64_t h = 0; h < task.heads; ++h) finish_head<V>(shape, task.query, task.first_head, h, space);
}

/// Calls run(AttendTask, scratch) for all heads of all queries, `unit` heads or a multiple at a time: all of a query,
/// unless threads would be left without work. scratch_bytes(heads): what a task needs.
template <class ScratchBytes, class Run>
void attend_tasks(Context& context, const AttendShape& shape, std::span<const AttendQuery> queries, std::int64_t unit,
                  ScratchBytes scratch_bytes, Run run) {
  const std::int64_t count = std::ssize(queries), threads = context.threads();
  if (count == 0 || shape.heads == 0) return;
  const std::int64_t units = (shape.heads + unit - 1) / unit;
  const std::int64_t parts =
      threads == 1 || count >= 4 * threads ? 1 : std::min(units, (2 * threads + count - 1) / count);
  context.reserve_thread_scratch(scratch_bytes((units + parts - 1) / parts * unit));
  parallel_for(context, count * parts, kLeastParallelWork, [&](std::int64_t item, int thread) {
    const std::int64_t part = item % parts, first = units * part / parts * unit;
    const std::int64_t last = std::min<std::int64_t>(shape.heads, units * (part + 1) / parts * unit);
    run(AttendTask{queries[static_cast<std::size_t>(item / parts)], first, last - first},
        context.thread_scratch<std::byte>(thread));
  });
}

template <class V>
void attend(Context& context, const AttendShape& shape, std::span<const AttendQuery> queries) {
  attend_tasks(
      context, shape, queries, kPanel<V>,
      [&](std::int64_t heads) { return AttendSpace<V>(shape, heads, nullptr).bytes; },
      [&](const AttendTask& task, std::byte* scratch) {
        attend_heads<V>(shape, task, AttendSpace<V>(shape, task.heads, scratch));
      });
}

}  // namespace skim::simd

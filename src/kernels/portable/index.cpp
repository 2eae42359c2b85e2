// Index scores. Of fp4 keys each per-head dot, its product with the weight and the sum are rounded to bf16, as
// published; of fp8 keys everything is float32 and the codes are multiplied without their scales. A task is a stretch
// of one query's slots, so that a single query over a long context keeps every thread busy.
#include <algorithm>
#include <limits>

#include "kernels/index_tasks.hpp"
#include "kernels/parallel.hpp"
#include "kernels/portable/portable.hpp"
#include "kernels/portable/vectors.hpp"
#include "kernels/portable/widen.hpp"

namespace skim::portable {
namespace {

// Keys widened at one time: 24 KiB at width 128, within the first-level cache.
constexpr std::int64_t kKeys = 48;
// Slots of a task: a query's heads are widened once for all of them.
constexpr std::int64_t kTaskSlots = 8 * kKeys;

/// Where one thread keeps what it works on.
struct Workspace {
  std::int64_t stride;  // of widened rows
  float* queries;       // [heads, stride]
  float* keys;          // [kKeys, stride]
  float* dots;          // [heads, kKeys]
  float* key_scales;    // [kKeys]; fp8 keys only

  static std::int64_t bytes(const IndexShape& shape) {
    const std::int64_t stride = round_up(shape.layout.width, kLanes);
    return ((shape.heads + kKeys) * stride + (shape.heads + 1) * kKeys) * static_cast<std::int64_t>(sizeof(float));
  }
  Workspace(const IndexShape& shape, float* memory) : stride(round_up(shape.layout.width, kLanes)) {
    queries = memory;
    keys = queries + shape.heads * stride;
    dots = keys + kKeys * stride;
    key_scales = dots + shape.heads * kKeys;
  }
};

bool is_fp8(const IndexShape& shape) { return shape.layout.format == RowFormat::fp8_f32; }

/// A row and the zeros that add_dots wants behind it; only fp8 rows may end between multiples of kLanes.
void widen(const IndexShape& shape, const std::byte* row, float* to) {
  if (is_fp8(shape)) {
    widen_codes(shape.layout, row, to);
    std::fill(to + shape.layout.width, to + round_up(shape.layout.width, kLanes), 0.0f);
  } else {
    widen_row(shape.layout, row, to);
  }
}

Floats relu(Floats dot) { return dot < spread(0.0f) ? spread(0.0f) : dot; }

void store_first(float* to, Floats values, std::int64_t count) {
  for (std::int64_t i = 0; i < std::min<std::int64_t>(kLanes, count); ++i) to[i] = values[i];
}

/// scores[i] = bf16(sum over heads of bf16(relu(bf16(dot)) * weight)), the heads in order.
void combine_fp4_heads(const float* dots, const float* weights, int heads, std::int64_t count, float* scores) {
  for (std::int64_t first = 0; first < count; first += kLanes) {
    Floats total = spread(0.0f);
    for (int head = 0; head < heads; ++head) {
      total += round_bf16(relu(round_bf16(load(dots + head * kKeys + first))) * weights[head]);
    }
    store_first(scores + first, round_bf16(total), count - first);
  }
}

/// scores[i] = key scale * sum over heads of relu(dot) * weight, the heads in order.
void combine_fp8_heads(const float* dots, const float* weights, const float* key_scales, int heads, std::int64_t count,
                       float* scores) {
  for (std::int64_t first = 0; first < count; first += kLanes) {
    Floats total = spread(0.0f);
    for (int head = 0; head < heads; ++head) total += relu(load(dots + head * kKeys + first)) * weights[head];
    store_first(scores + first, total * load(key_scales + first), count - first);
  }
}

/// Slots [first, first + count), count <= kKeys. Positions that cannot be seen are not read.
void score_keys(const IndexShape& shape, const IndexQuery& query, std::int64_t first, std::int64_t count,
                const Workspace& space) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t position = query.range.position(first + i);
    float* key = space.keys + i * space.stride;
    space.key_scales[i] = 1.0f;
    if (position < query.range.visible) {
      widen(shape, query.keys.row(position), key);
      if (is_fp8(shape)) space.key_scales[i] = row_scale(shape.layout, query.keys.row(position), 0);
    } else {
      std::fill_n(key, space.stride, 0.0f);
    }
  }
  std::fill_n(space.dots, shape.heads * kKeys, 0.0f);
  add_dots({space.queries, shape.heads, space.stride}, {space.keys, count, space.stride}, shape.layout.width,
           space.dots, kKeys);
  float* scores = query.scores + first;
  if (is_fp8(shape)) {
    combine_fp8_heads(space.dots, query.weights, space.key_scales, shape.heads, count, scores);
  } else {
    combine_fp4_heads(space.dots, query.weights, shape.heads, count, scores);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (query.range.position(first + i) >= query.range.visible) scores[i] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace

void index_score(Context& context, const IndexShape& shape, std::span<const IndexQuery> queries) {
  const Arena::Scope scope(context.arena());
  const std::span<const IndexTask> tasks = split_queries(context.arena(), queries, kTaskSlots);
  context.reserve_thread_scratch(Workspace::bytes(shape));
  parallel_for(context, static_cast<std::int64_t>(tasks.size()), kLeastParallelWork,
               [&](std::int64_t item, int thread) {
                 const IndexTask& task = tasks[static_cast<std::size_t>(item)];
                 const Workspace space(shape, context.thread_scratch<float>(thread));
                 for (int head = 0; head < shape.heads; ++head) {
                   widen(shape, task.query->query + head * shape.layout.bytes(), space.queries + head * space.stride);
                 }
                 for (std::int64_t first = task.first; first < task.last; first += kKeys) {
                   score_keys(shape, *task.query, first, std::min(kKeys, task.last - first), space);
                 }
               });
}

}  // namespace skim::portable

// Index scores. A task is a stretch of one query's slots, so that a single query over a long context keeps every thread
// busy.
#pragma once

#include <limits>

#include "kernels/index_tasks.hpp"
#include "kernels/parallel.hpp"
#include "kernels/simd/index_fp8.hpp"

namespace skim::simd {

/// Slots of a task: the heads of a query are laid out once for all of them.
inline constexpr std::int64_t kTaskSlots = 16 * kKeys;

/// Calls score(first, count, scores) for kKeys slots of the task at a time.
template <class Score>
void for_keys(const IndexTask& task, Score score) {
  for (std::int64_t first = task.first; first < task.last; first += kKeys) {
    score(first, std::min(kKeys, task.last - first), task.query->scores + first);
  }
}

template <class V>
void score_task(const IndexShape& shape, const IndexTask& task, std::byte* scratch) {
  const IndexQuery& query = *task.query;
  if (shape.layout.format == RowFormat::fp8_f32) {
    const Fp8IndexSpace<V> space(shape, scratch);
    pack_heads(shape, query, space);
    for_keys(task, [&](std::int64_t first, std::int64_t count, float* scores) {
      score_fp8_keys(shape, query, first, count, space, scores);
    });
  } else {
    const Fp4IndexSpace<V> space(shape, scratch);
    pack_heads(shape, query, space);
    for_keys(task, [&](std::int64_t first, std::int64_t count, float* scores) {
      score_fp4_keys(shape, query, first, count, space, scores);
    });
  }
}

/// Calls run(task, scratch) for stretches of the queries, with `scratch_bytes` of scratch.
template <class Run>
void score_tasks(Context& context, std::span<const IndexQuery> queries, std::int64_t scratch_bytes, Run run) {
  const Arena::Scope scope(context.arena());
  const std::span<const IndexTask> tasks = split_queries(context.arena(), queries, kTaskSlots);
  context.reserve_thread_scratch(scratch_bytes);
  parallel_for(context, std::ssize(tasks), kLeastParallelWork, [&](std::int64_t item, int thread) {
    run(tasks[static_cast<std::size_t>(item)], context.thread_scratch<std::byte>(thread));
  });
}

template <class V>
void index_score(Context& context, const IndexShape& shape, std::span<const IndexQuery> queries) {
  const std::int64_t bytes = std::max(Fp4IndexSpace<V>(shape, nullptr).bytes, Fp8IndexSpace<V>(shape, nullptr).bytes);
  score_tasks(context, queries, bytes,
              [&](const IndexTask& task, std::byte* scratch) { score_task<V>(shape, task, scratch); });
}

}  // namespace skim::simd

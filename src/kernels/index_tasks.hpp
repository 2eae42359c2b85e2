// Index scoring cut into pieces of work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/context.hpp"
#include "kernels/kernels.hpp"

namespace skim {

/// Slots [first, last) of one query.
struct IndexTask {
  const IndexQuery* query;
  std::int64_t first, last;
};

/// Stretches of at most `most_slots`, so that a single query over a long context keeps every thread busy.
inline std::span<const IndexTask> split_queries(Arena& arena, std::span<const IndexQuery> queries,
                                                std::int64_t most_slots) {
  std::int64_t count = 0;
  for (const IndexQuery& query : queries) count += (query.range.slots() + most_slots - 1) / most_slots;
  IndexTask* const tasks = arena.take<IndexTask>(count);
  IndexTask* next = tasks;
  for (const IndexQuery& query : queries) {
    for (std::int64_t first = 0; first < query.range.slots(); first += most_slots) {
      *next++ = {&query, first, std::min(first + most_slots, query.range.slots())};
    }
  }
  return {tasks, next};
}

}  // namespace skim

// Index scores with the published rounding: published Indexer.forward. Work is split into stretches of one query's
// slots, so that a single query over a long context keeps every thread busy.
#include <algorithm>
#include <limits>

#include "formats/bf16.hpp"
#include "kernels/index_tasks.hpp"
#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {
namespace {

constexpr std::int64_t kSlotsPerTask = 512;

/// queries: [heads, width] and key: [width], both widened.
float score_key(const IndexShape& shape, const float* queries, const float* weights, const float* key) {
  float total = 0;
  for (int head = 0; head < shape.heads; ++head) {
    const float* query = queries + static_cast<std::int64_t>(head) * shape.layout.width;
    float dot = 0;
    for (int i = 0; i < shape.layout.width; ++i) dot += query[i] * key[i];
    const float positive = std::max(round_bf16(dot), 0.0f);
    total += round_bf16(positive * weights[head]);
  }
  return round_bf16(total);
}

}  // namespace

void index_score(Context& context, const IndexShape& shape, std::span<const IndexQuery> queries) {
  const Arena::Scope scope(context.arena());
  const std::span<const IndexTask> tasks = split_queries(context.arena(), queries, kSlotsPerTask);
  const std::int64_t width = shape.layout.width;
  context.reserve_thread_scratch((shape.heads + 1) * width * static_cast<std::int64_t>(sizeof(float)));
  parallel_for(context, static_cast<std::int64_t>(tasks.size()), kSlotsPerTask * shape.heads * width,
               [&](std::int64_t item, int thread) {
                 const auto& [query, first, last] = tasks[static_cast<std::size_t>(item)];
                 float* heads = context.thread_scratch<float>(thread);
                 float* key = heads + shape.heads * width;
                 for (int head = 0; head < shape.heads; ++head) {
                   unpack_row(shape.layout, query->query + head * shape.layout.bytes(), heads + head * width);
                 }
                 for (std::int64_t slot = first; slot < last; ++slot) {
                   const std::int64_t position = query->range.position(slot);
                   if (position >= query->range.visible) {
                     query->scores[slot] = -std::numeric_limits<float>::infinity();
                     continue;
                   }
                   unpack_row(shape.layout, query->keys.row(position), key);
                   query->scores[slot] = score_key(shape, heads, query->weights, key);
                 }
               });
}

}  // namespace skim::reference

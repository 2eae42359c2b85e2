// Index scores with the published rounding: published Indexer.forward, fp8_index. Work is split into stretches of one
// query's slots, so that a single query over a long context keeps every thread busy.
#include <algorithm>
#include <limits>

#include "formats/bf16.hpp"
#include "kernels/index_tasks.hpp"
#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {
namespace {

constexpr std::int64_t kSlotsPerTask = 512;

bool is_fp8(const IndexShape& shape) { return shape.layout.format == RowFormat::fp8_f32; }

/// What enters the dots: values, or the codes alone of fp8_f32 rows.
void widen(const IndexShape& shape, const std::byte* row, float* wide) {
  if (is_fp8(shape)) {
    unpack_codes(shape.layout, row, wide);
  } else {
    unpack_row(shape.layout, row, wide);
  }
}

float dot(const float* query, const float* key, int width) {
  float sum = 0;
  for (int i = 0; i < width; ++i) sum += query[i] * key[i];
  return sum;
}

/// queries: [heads, width] and key: [width], both widened.
float score_fp4_key(const IndexShape& shape, const float* queries, const float* weights, const float* key) {
  float total = 0;
  for (int head = 0; head < shape.heads; ++head) {
    const float product = dot(queries + std::int64_t{head} * shape.layout.width, key, shape.layout.width);
    total += round_bf16(std::max(round_bf16(product), 0.0f) * weights[head]);
  }
  return round_bf16(total);
}

/// queries: [heads, width] and key: [width], codes.
float score_fp8_key(const IndexShape& shape, const float* queries, const float* weights, const float* key,
                    float key_scale) {
  float total = 0;
  for (int head = 0; head < shape.heads; ++head) {
    const float product = dot(queries + std::int64_t{head} * shape.layout.width, key, shape.layout.width);
    total += std::max(product, 0.0f) * weights[head];
  }
  return total * key_scale;
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
                   widen(shape, query->query + head * shape.layout.bytes(), heads + head * width);
                 }
                 for (std::int64_t slot = first; slot < last; ++slot) {
                   const std::int64_t position = query->range.position(slot);
                   if (position >= query->range.visible) {
                     query->scores[slot] = -std::numeric_limits<float>::infinity();
                     continue;
                   }
                   const std::byte* row = query->keys.row(position);
                   widen(shape, row, key);
                   query->scores[slot] =
                       is_fp8(shape) ? score_fp8_key(shape, heads, query->weights, key, row_scale(shape.layout, row, 0))
                                     : score_fp4_key(shape, heads, query->weights, key);
                 }
               });
}

}  // namespace skim::reference

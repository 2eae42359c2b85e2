// Attention. Each block of rows is widened once for all heads of a task; logits are dots of widened rows, and the value
// product runs along the values, four heads by three vectors at a time.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "formats/bf16.hpp"
#include "kernels/parallel.hpp"
#include "kernels/portable/portable.hpp"
#include "kernels/portable/vectors.hpp"
#include "kernels/portable/widen.hpp"

namespace skim::portable {
namespace {

constexpr float kLowestMaximum = -1e30f;

// The tile of the value product, as in dots.cpp: 4 x 3 running sums, 3 vectors of a row, one product.
constexpr int kTileHeads = 4, kTileVectors = 3;
// A task widens its rows for itself. Logits and values of 8 heads cost about 8 times that.
constexpr int kLeastTaskHeads = 8;

struct HeadState {
  float maximum = kLowestMaximum;
  float denominator = 0;
  float rescale = 1;  ///< What the block at hand makes of the average so far.
};

/// Where one task keeps what it works on; heads are counted from the task's first.
struct Workspace {
  std::int64_t key_stride, value_stride;
  float* queries;        // [heads, key_stride]
  float* rows;           // [kAttendBlock, key_stride]
  float* logits;         // [heads, kAttendBlock], then probabilities
  float* second_parts;   // [heads, kAttendBlock], of logits that are rounded in parts
  float* probabilities;  // per tile of heads [kAttendBlock, tile heads, kLanes]: rounded, each in all lanes
  float* average;        // [heads, value_stride]
  HeadState* heads;      // [heads]

  /// An odd number of cache lines, so that the same columns of 64 rows lie in 64 different cache sets.
  static std::int64_t stride_for(const AttendShape& shape) {
    const int width = std::max({shape.key_width, shape.window_layout.width, shape.selected_layout.width});
    return (round_up(width, 16) / 16 | 1) * 16;
  }
  static std::int64_t bytes(const AttendShape& shape, std::int64_t heads) {
    const std::int64_t per_head =
        stride_for(shape) + 2 * kAttendBlock + kAttendBlock * kLanes + round_up(shape.value_width, kLanes);
    return (heads * per_head + kAttendBlock * stride_for(shape)) * static_cast<std::int64_t>(sizeof(float)) +
           heads * static_cast<std::int64_t>(sizeof(HeadState));
  }
  Workspace(const AttendShape& shape, std::int64_t heads_, float* memory)
      : key_stride(stride_for(shape)), value_stride(round_up(shape.value_width, kLanes)) {
    queries = memory;
    rows = queries + heads_ * key_stride;
    logits = rows + kAttendBlock * key_stride;
    second_parts = logits + heads_ * kAttendBlock;
    probabilities = second_parts + heads_ * kAttendBlock;
    average = probabilities + heads_ * kAttendBlock * kLanes;
    heads = reinterpret_cast<HeadState*>(average + heads_ * value_stride);
  }
};

/// logits [heads, kAttendBlock] = q . row * scale
void plain_logits(const AttendShape& shape, const Rows& queries, const Rows& rows, const Workspace& space) {
  std::fill_n(space.logits, queries.count * kAttendBlock, 0.0f);
  add_dots(queries, rows, shape.key_width, space.logits, kAttendBlock);
  for (std::int64_t i = 0; i < queries.count * kAttendBlock; i += kLanes) {
    store(space.logits + i, load(space.logits + i) * shape.scale);
  }
}

/// The same from two dots, over the values and over the rest, rounded like AttendRounding::logits.
void rounded_logits(const AttendShape& shape, const Rows& queries, const Rows& rows, const Workspace& space) {
  const std::int64_t first = shape.value_width, rest = shape.key_width - first;
  std::fill_n(space.logits, 2 * queries.count * kAttendBlock, 0.0f);  // second_parts too
  add_dots(queries, rows, first, space.logits, kAttendBlock);
  if (rest > 0) {
    add_dots({queries.data + first, queries.count, queries.stride}, {rows.data + first, rows.count, rows.stride}, rest,
             space.second_parts, kAttendBlock);
  }
  for (std::int64_t i = 0; i < queries.count * kAttendBlock; i += kLanes) {
    const Floats sum = round_bf16(load(space.logits + i)) + round_bf16(load(space.second_parts + i));
    store(space.logits + i, round_bf16(round_bf16(sum) * shape.scale));
  }
}

/// Logits [kAttendBlock] of which `count` exist become probabilities relative to the new maximum; the others become 0.
void soften(float* logits, std::int64_t count, HeadState& head) {
  std::fill(logits + count, logits + kAttendBlock, -std::numeric_limits<float>::infinity());
  Floats largest = spread(head.maximum);
  for (int i = 0; i < kAttendBlock; i += kLanes) {
    const Floats logit = load(logits + i);
    largest = largest < logit ? logit : largest;  // a NaN is left to the exponential
  }
  const float maximum = std::max({largest[0], largest[1], largest[2], largest[3]});
  Floats sum = spread(0.0f);
  for (int i = 0; i < kAttendBlock; i += kLanes) {
    const Floats probability = exp_negative(load(logits + i) - maximum);
    sum += probability;
    store(logits + i, round_bf16(probability));
  }
  head.rescale = std::exp(head.maximum - maximum);
  head.denominator = head.denominator * head.rescale + sum_lanes(sum);
  head.maximum = maximum;
}

/// average[kHeads, 4 * kVectors] = average * rescale + probabilities^T rows, for `count` rows in order.
template <int kHeads, int kVectors>
void average_tile(const float* probabilities, const float* rows, std::int64_t row_stride, std::int64_t count,
                  const HeadState* heads, float* average, std::int64_t average_stride) {
  Floats sums[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) sums[h][v] = load(average + h * average_stride + v * kLanes) * heads[h].rescale;
  }
  std::int64_t i = 0;
  do {
    Floats values[kVectors];
    for (int v = 0; v < kVectors; ++v) values[v] = load(rows + i * row_stride + v * kLanes);
    for (int h = 0; h < kHeads; ++h) {
      const Floats probability = load(probabilities + (i * kHeads + h) * kLanes);
      for (int v = 0; v < kVectors; ++v) sums[h][v] += probability * values[v];
    }
    ++i;
  } while (i < count);
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) store(average + h * average_stride + v * kLanes, sums[h][v]);
  }
}

using AverageTile = void (*)(const float*, const float*, std::int64_t, std::int64_t, const HeadState*, float*,
                             std::int64_t);
template <int kHeads>
constexpr std::array<AverageTile, kTileVectors> kTilesOf = {average_tile<kHeads, 1>, average_tile<kHeads, 2>,
                                                            average_tile<kHeads, 3>};
constexpr std::array kAverageTiles = {kTilesOf<1>, kTilesOf<2>, kTilesOf<3>, kTilesOf<4>};
static_assert(kAverageTiles.size() == kTileHeads);

/// Probability of row i and head h of each tile into all lanes.
void spread_probabilities(const Workspace& space, const Tiles& head_tiles) {
  float* to = space.probabilities;
  for (std::int64_t tile = 0; tile < head_tiles.tiles; ++tile) {
    for (int i = 0; i < kAttendBlock; ++i) {
      for (std::int64_t h = head_tiles.first(tile); h < head_tiles.first(tile + 1); ++h, to += kLanes) {
        store(to, spread(space.logits[h * kAttendBlock + i]));
      }
    }
  }
}

void average_values(const Workspace& space, std::int64_t heads, std::int64_t count) {
  const Tiles head_tiles(heads, kTileHeads), vector_tiles(space.value_stride / kLanes, kTileVectors);
  spread_probabilities(space, head_tiles);
  for (std::int64_t vector = 0; vector < vector_tiles.tiles; ++vector) {
    const std::int64_t column = vector_tiles.first(vector) * kLanes;
    for (std::int64_t tile = 0; tile < head_tiles.tiles; ++tile) {
      const std::int64_t h = head_tiles.first(tile);
      const AverageTile average = kAverageTiles[static_cast<std::size_t>(head_tiles.size(tile) - 1)]
                                               [static_cast<std::size_t>(vector_tiles.size(vector) - 1)];
      average(space.probabilities + h * kAttendBlock * kLanes, space.rows + column, space.key_stride, count,
              space.heads + h, space.average + h * space.value_stride + column, space.value_stride);
    }
  }
}

void finish_head(const AttendShape& shape, std::int64_t h, HeadState head, const float* average, bf16* out) {
  if (shape.sink != nullptr) head.denominator += std::exp(shape.sink[h] - head.maximum);
  for (int c = 0; c < shape.value_width; ++c) {
    out[c] = head.denominator > 0 || std::isnan(head.denominator) ? to_bf16(average[c] / head.denominator) : bf16{0};
  }
}

/// Heads [first_head, first_head + heads) of one query.
void attend_heads(const AttendShape& shape, const AttendQuery& query, std::int64_t first_head, std::int64_t heads,
                  const Workspace& space) {
  std::fill_n(space.queries, heads * space.key_stride, 0.0f);
  for (std::int64_t h = 0; h < heads; ++h) {
    widen_bf16(query.query + (first_head + h) * shape.key_width, shape.key_width, space.queries + h * space.key_stride);
  }
  std::fill_n(space.rows, kAttendBlock * space.key_stride, 0.0f);
  std::fill_n(space.average, heads * space.value_stride, 0.0f);
  std::fill_n(space.heads, heads, HeadState{});

  const std::int64_t total = query.rows();
  for (std::int64_t first = 0; first < total; first += kAttendBlock) {
    const std::int64_t count = std::min<std::int64_t>(kAttendBlock, total - first);
    for (std::int64_t i = 0; i < count; ++i) {
      widen_row(query.layout(shape, first + i), query.row(first + i), space.rows + i * space.key_stride);
    }
    const auto logits = shape.rounding == AttendRounding::logits ? rounded_logits : plain_logits;
    logits(shape, {space.queries, heads, space.key_stride}, {space.rows, count, space.key_stride}, space);
    for (std::int64_t h = 0; h < heads; ++h) soften(space.logits + h * kAttendBlock, count, space.heads[h]);
    average_values(space, heads, count);
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    const HeadState& head = space.heads[h];
    if (query.log_sum != nullptr) {
      query.log_sum[first_head + h] =
          head.denominator == 0 ? -std::numeric_limits<float>::infinity() : head.maximum + std::log(head.denominator);
    }
    finish_head(shape, first_head + h, space.heads[h], space.average + h * space.value_stride,
                query.out + (first_head + h) * shape.value_width);
  }
}

/// Parts into which the heads of each query are cut: one, unless threads would be left without work.
std::int64_t head_parts(const Context& context, int heads, std::int64_t queries) {
  const std::int64_t useful = (heads + kLeastTaskHeads - 1) / kLeastTaskHeads;
  const std::int64_t wanted = queries >= 4 * context.threads() ? 1 : (2 * context.threads() + queries - 1) / queries;
  return context.threads() == 1 ? 1 : std::min(useful, wanted);
}

}  // namespace

void attend(Context& context, const AttendShape& shape, std::span<const AttendQuery> queries) {
  const auto count = static_cast<std::int64_t>(queries.size());
  if (count == 0 || shape.heads == 0) return;
  const std::int64_t parts = head_parts(context, shape.heads, count);
  const Tiles tasks(shape.heads, (shape.heads + parts - 1) / parts);
  context.reserve_thread_scratch(Workspace::bytes(shape, (shape.heads + parts - 1) / parts));
  parallel_for(context, count * tasks.tiles, kLeastParallelWork, [&](std::int64_t item, int thread) {
    const std::int64_t part = item % tasks.tiles;
    const Workspace space(shape, tasks.size(part), context.thread_scratch<float>(thread));
    attend_heads(shape, queries[static_cast<std::size_t>(item / tasks.tiles)], tasks.first(part), tasks.size(part),
                 space);
  });
}

}  // namespace skim::portable

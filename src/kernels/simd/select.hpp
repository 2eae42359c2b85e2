// Top-k and candidate blocks without sorting. One pass over the scores keeps the largest of each run; the k-th largest
// of those is a bound that at least k scores reach. A second pass visits only runs that reach it. What is kept does not
// depend on runs or bounds: docs/v41.md, steps 5 and 6.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

#include "kernels/kernels.hpp"
#include "kernels/parallel.hpp"
#include "kernels/simd/vector_math.hpp"

namespace skim::simd {
namespace {

inline constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Scored {
  float score;
  std::int32_t place;
};

/// Higher score first, then lower place.
struct Better {
  bool operator()(const Scored& a, const Scored& b) const {
    return a.score != b.score ? a.score > b.score : a.place < b.place;
  }
};

/// Room for what may still be among the k best. When it is full, the k best stay.
struct Candidates {
  Scored* entries;
  std::int64_t k, room, count = 0;

  static std::int64_t room_for(std::int64_t k) { return 4 * k + 64; }
  void keep_best() {
    if (count <= k) return;
    std::nth_element(entries, entries + k, entries + count, Better());
    count = k;
  }
  /// True if `bound` should be read again.
  bool add(float score, std::int64_t place) {
    entries[count++] = {score, static_cast<std::int32_t>(place)};
    if (count < room) return false;
    keep_best();
    return true;
  }
  /// Least score of `count` >= 1 entries.
  float least() const {
    float least = entries[0].score;
    for (std::int64_t i = 1; i < count; ++i) least = std::min(least, entries[i].score);
    return least;
  }
  /// The k best, ascending by place.
  void finish() {
    keep_best();
    std::sort(entries, entries + count, [](const Scored& a, const Scored& b) { return a.place < b.place; });
  }
};

}  // namespace

inline constexpr std::int64_t kShortestRun = 16;

/// Scores of a run: few enough for several times k runs, so that the bound is close to the k-th best score.
template <class V>
std::int64_t run_length(std::int64_t count, std::int64_t k) {
  std::int64_t length = kShortestRun;
  while (length < 512 && count / length > 16 * k) length *= 2;
  return length;
}

/// Largest of each run of scores; NaN is ignored.
template <class V>
void run_maxima(std::span<const float> scores, std::int64_t length, float* maxima) {
  const std::int64_t count = std::ssize(scores);
  for (std::int64_t first = 0; first < count; first += length) {
    const std::int64_t last = std::min(first + length, count);
    Floats<V> most[4];
    for (Floats<V>& lane : most) lane = spread<V>(kNothing);
    std::int64_t i = first;
    for (; i + 4 * V::kLanes <= last; i += 4 * V::kLanes) {
      for (int v = 0; v < 4; ++v) {
        most[v] = V::larger(load_unaligned<V>(scores.data() + i + v * V::kLanes), most[v]);
      }
    }
    for (; i + V::kLanes <= last; i += V::kLanes) {
      most[0] = V::larger(load_unaligned<V>(scores.data() + i), most[0]);
    }
    const Floats<V> both = V::larger(V::larger(most[0], most[1]), V::larger(most[2], most[3]));
    float largest = kNothing;
    for (int lane = 0; lane < V::kLanes; ++lane) largest = std::max(largest, both[lane]);
    for (; i < last; ++i)
      largest = scores[static_cast<std::size_t>(i)] > largest ? scores[static_cast<std::size_t>(i)] : largest;
    *maxima++ = largest;
  }
}

/// Adds the scores of [first, last) that reach `bound`; `bound` rises when the candidates have been thinned out.
template <class V>
void collect(std::span<const float> scores, std::int64_t first, std::int64_t last, float& bound,
             Candidates& candidates) {
  const auto offer = [&](std::int64_t place) {
    const float score = scores[static_cast<std::size_t>(place)];
    // Places ascend, so a score that only equals the least of k kept ones loses the tie.
    if (score >= bound && candidates.add(score, place))
      bound = std::nextafter(candidates.least(), std::numeric_limits<float>::infinity());
  };
  std::int64_t i = first;
  for (; i + V::kLanes <= last; i += V::kLanes) {
    std::uint32_t hits = V::at_least(load_unaligned<V>(scores.data() + i), spread<V>(bound));
    for (; hits != 0; hits &= hits - 1) offer(i + std::countr_zero(hits));
  }
  for (; i < last; ++i) offer(i);
}

/// The k best scores above -inf into `candidates`. maxima: room for two floats per run.
template <class V>
void keep_best_scores(std::span<const float> scores, float* maxima, Candidates& candidates) {
  const std::int64_t count = std::ssize(scores), length = run_length<V>(count, candidates.k);
  const std::int64_t runs = (count + length - 1) / length;
  float bound = std::numeric_limits<float>::lowest();
  run_maxima<V>(scores, length, maxima);
  if (runs > candidates.k) {
    float* const sorted = maxima + runs;
    std::copy_n(maxima, runs, sorted);
    std::nth_element(sorted, sorted + candidates.k - 1, sorted + runs, std::greater<float>());
    bound = std::max(bound, sorted[candidates.k - 1]);
  }
  for (std::int64_t run = 0; run < runs; ++run) {
    if (maxima[run] >= bound) {
      collect<V>(scores, run * length, std::min((run + 1) * length, count), bound, candidates);
    }
  }
  candidates.finish();
}

/// Scratch of one query over `count` scores: candidates, then maxima of runs.
template <class V>
std::int64_t select_bytes(std::int64_t count, std::int64_t k) {
  const std::int64_t runs = count / kShortestRun + 1;
  return round_up(Candidates::room_for(k) * static_cast<std::int64_t>(sizeof(Scored)), 64) +
         2 * runs * static_cast<std::int64_t>(sizeof(float));
}

template <class V>
Candidates best_of(std::span<const float> scores, std::int64_t k, std::byte* scratch) {
  Candidates candidates{reinterpret_cast<Scored*>(scratch), k, Candidates::room_for(k)};
  auto* const maxima =
      reinterpret_cast<float*>(scratch + round_up(candidates.room * static_cast<std::int64_t>(sizeof(Scored)), 64));
  if (k > 0) keep_best_scores<V>(scores, maxima, candidates);
  return candidates;
}

template <class V>
void topk(const TopkQuery& query, std::byte* scratch) {
  const Candidates best = best_of<V>(query.scores, query.k, scratch);
  for (std::int64_t i = 0; i < best.count; ++i) {
    query.positions[i] = static_cast<std::int32_t>(query.range.position(best.entries[i].place));
  }
  *query.count = static_cast<std::int32_t>(best.count);
}

/// Calls select(query, scratch) for every query. bytes(query): scratch that one needs.
template <class Query, class Bytes, class Select>
void select_each(Context& context, std::span<const Query> queries, Bytes bytes, Select select) {
  std::int64_t most = 0, longest = 0;
  for (const Query& query : queries) {
    most = std::max(most, bytes(query));
    longest = std::max(longest, std::ssize(query.scores));
  }
  context.reserve_thread_scratch(most);
  parallel_for(context, std::ssize(queries), longest, [&](std::int64_t i, int thread) {
    select(queries[static_cast<std::size_t>(i)], context.thread_scratch<std::byte>(thread));
  });
}

template <class V>
void select_topk(Context& context, std::span<const TopkQuery> queries) {
  select_each(
      context, queries, [](const TopkQuery& query) { return select_bytes<V>(std::ssize(query.scores), query.k); },
      topk<V>);
}

/// Best score of each block before the last, -inf where there is none but NaN.
inline constexpr auto block_maxima = [](const BlockQuery& query, std::int64_t blocks, float* maxima) {
  const float* score = query.scores.data();
  for (std::int64_t block = 0; block < blocks; ++block) {
    float largest = kNothing;
    for (int i = 0; i < query.block_size; ++i, ++score) largest = *score > largest ? *score : largest;
    maxima[block] = largest;
  }
};

/// Blocks before the newest one, which is always kept.
inline constexpr auto older_blocks = [](const BlockQuery& query) {
  return std::max<std::int64_t>(0, (std::ssize(query.scores) - 1) / query.block_size);
};

template <class V>
std::int64_t block_bytes(const BlockQuery& query) {
  const std::int64_t blocks = older_blocks(query);
  return round_up(blocks * static_cast<std::int64_t>(sizeof(float)), 64) + select_bytes<V>(blocks, query.k - 1);
}

template <class V>
void best_blocks(const BlockQuery& query, std::byte* scratch) {
  *query.count = 0;
  if (query.scores.empty()) return;
  const std::int64_t blocks = older_blocks(query), wanted = std::min<std::int64_t>(query.k - 1, blocks);
  auto* const maxima = reinterpret_cast<float*>(scratch);
  block_maxima(query, blocks, maxima);
  const std::span<const float> scores(maxima, static_cast<std::size_t>(blocks));
  const Candidates best =
      best_of<V>(scores, query.k - 1, scratch + round_up(blocks * static_cast<std::int64_t>(sizeof(float)), 64));
  std::int64_t kept = 0;
  for (; kept < best.count; ++kept) query.blocks[kept] = best.entries[kept].place;
  if (kept < wanted) {  // for want of better ones
    for (std::int64_t block = 0; kept < wanted; ++block) {
      if (maxima[block] == kNothing) query.blocks[kept++] = static_cast<std::int32_t>(block);
    }
    std::sort(query.blocks, query.blocks + kept);
  }
  query.blocks[kept] = static_cast<std::int32_t>(blocks);
  *query.count = static_cast<std::int32_t>(kept + 1);
}

template <class V>
void select_blocks(Context& context, std::span<const BlockQuery> queries) {
  select_each(context, queries, block_bytes<V>, best_blocks<V>);
}

}  // namespace skim::simd

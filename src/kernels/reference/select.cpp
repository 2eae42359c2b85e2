// Top-k and candidate blocks. Selection is a pure function of the scores: docs/v41.md, step 6.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {
namespace {

struct Scored {
  float score;
  std::int32_t place;
};

/// Higher score first, then lower place.
bool better(const Scored& a, const Scored& b) { return a.score != b.score ? a.score > b.score : a.place < b.place; }

/// Puts the k best of `scored` first, ascending by place, and returns how many there are.
std::int64_t keep_best(std::span<Scored> scored, std::int64_t k) {
  const std::int64_t kept = std::min(k, static_cast<std::int64_t>(scored.size()));
  std::nth_element(scored.begin(), scored.begin() + kept, scored.end(), better);
  std::sort(scored.begin(), scored.begin() + kept, [](const Scored& a, const Scored& b) { return a.place < b.place; });
  return kept;
}

bool eligible(float score) { return score > -std::numeric_limits<float>::infinity(); }  // false for NaN

/// scored: [query.scores.size()], scratch.
void topk(const TopkQuery& query, Scored* scored) {
  std::size_t count = 0;
  for (std::size_t slot = 0; slot < query.scores.size(); ++slot) {
    if (eligible(query.scores[slot])) scored[count++] = {query.scores[slot], static_cast<std::int32_t>(slot)};
  }
  const std::int64_t kept = keep_best({scored, count}, query.k);
  for (std::int64_t i = 0; i < kept; ++i) {
    query.positions[i] = static_cast<std::int32_t>(query.range.position(scored[i].place));
  }
  *query.count = static_cast<std::int32_t>(kept);
}

/// scored: one per block, scratch.
void best_blocks(const BlockQuery& query, Scored* scored) {
  *query.count = 0;
  const auto visible = static_cast<std::int64_t>(query.scores.size());
  if (visible == 0) return;
  const std::int64_t newest = (visible - 1) / query.block_size;
  for (std::int64_t block = 0; block < newest; ++block) {
    float best = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = block * query.block_size; i < (block + 1) * query.block_size; ++i) {
      best = std::fmax(best, query.scores[static_cast<std::size_t>(i)]);
    }
    scored[block] = {best, static_cast<std::int32_t>(block)};
  }
  const std::int64_t kept = keep_best({scored, static_cast<std::size_t>(newest)}, query.k - 1);
  for (std::int64_t i = 0; i < kept; ++i) query.blocks[i] = scored[i].place;
  query.blocks[kept] = static_cast<std::int32_t>(newest);
  *query.count = static_cast<std::int32_t>(kept + 1);
}

/// Calls select(query, scratch) for every query, with scratch for as many entries as the longest has scores.
template <class Query>
void select_each(Context& context, std::span<const Query> queries, void (*select)(const Query&, Scored*)) {
  std::size_t longest = 0;
  for (const Query& query : queries) longest = std::max(longest, query.scores.size());
  context.reserve_thread_scratch(static_cast<std::int64_t>(longest * sizeof(Scored)));
  parallel_for(context, static_cast<std::int64_t>(queries.size()), 10 * static_cast<std::int64_t>(longest),
               [&](std::int64_t i, int thread) {
                 select(queries[static_cast<std::size_t>(i)], context.thread_scratch<Scored>(thread));
               });
}

}  // namespace

void select_topk(Context& context, std::span<const TopkQuery> queries) { select_each(context, queries, topk); }

void select_blocks(Context& context, std::span<const BlockQuery> queries) {
  select_each(context, queries, best_blocks);
}

}  // namespace skim::reference

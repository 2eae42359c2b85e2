// Top-k and candidate blocks. Selection is a pure function of the scores: SPEC section 4.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {
namespace {

struct Scored {
  float score;
  std::int64_t place;
};

/// Higher score first, then lower place.
bool better(const Scored& a, const Scored& b) { return a.score != b.score ? a.score > b.score : a.place < b.place; }

/// Writes the places of the k best, ascending.
void keep_best(std::vector<Scored>& scored, std::int64_t k) {
  if (static_cast<std::int64_t>(scored.size()) > k) {
    std::nth_element(scored.begin(), scored.begin() + k, scored.end(), better);
    scored.resize(static_cast<std::size_t>(k));
  }
  std::sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) { return a.place < b.place; });
}

bool eligible(float score) { return score > -std::numeric_limits<float>::infinity(); }  // false for NaN

void topk(const TopkQuery& query, std::vector<Scored>& scored) {
  scored.clear();
  for (std::size_t slot = 0; slot < query.scores.size(); ++slot) {
    if (eligible(query.scores[slot])) scored.push_back({query.scores[slot], static_cast<std::int64_t>(slot)});
  }
  keep_best(scored, query.k);
  for (std::size_t i = 0; i < scored.size(); ++i) {
    query.positions[i] = static_cast<std::int32_t>(query.range.position(scored[i].place));
  }
  *query.count = static_cast<std::int32_t>(scored.size());
}

void best_blocks(const BlockQuery& query, std::vector<Scored>& scored) {
  scored.clear();
  *query.count = 0;
  const auto visible = static_cast<std::int64_t>(query.scores.size());
  if (visible == 0) return;
  const std::int64_t newest = (visible - 1) / query.block_size;
  for (std::int64_t block = 0; block < newest; ++block) {
    float best = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = block * query.block_size; i < (block + 1) * query.block_size; ++i) {
      best = std::fmax(best, query.scores[static_cast<std::size_t>(i)]);
    }
    scored.push_back({best, block});
  }
  keep_best(scored, query.k - 1);
  scored.push_back({0, newest});
  for (std::size_t i = 0; i < scored.size(); ++i) query.blocks[i] = static_cast<std::int32_t>(scored[i].place);
  *query.count = static_cast<std::int32_t>(scored.size());
}

/// Memory for one thread's candidates, set up before the parallel region because it must not throw inside.
class Scratch {
 public:
  template <class Query>
  Scratch(const Context& context, std::span<const Query> queries)
      : lists_(static_cast<std::size_t>(context.threads())) {
    for (const Query& query : queries) longest_ = std::max(longest_, query.scores.size());
    for (auto& list : lists_) list.reserve(longest_);
  }
  std::vector<Scored>& of(int thread) { return lists_[static_cast<std::size_t>(thread)]; }
  /// Elementary operations per query, at most.
  std::int64_t work() const { return 10 * static_cast<std::int64_t>(longest_); }

 private:
  std::size_t longest_ = 0;
  std::vector<std::vector<Scored>> lists_;
};

}  // namespace

void select_topk(Context& context, std::span<const TopkQuery> queries) {
  Scratch scratch(context, queries);
  parallel_for(context, static_cast<std::int64_t>(queries.size()), scratch.work(),
               [&](std::int64_t i, int thread) { topk(queries[static_cast<std::size_t>(i)], scratch.of(thread)); });
}

void select_blocks(Context& context, std::span<const BlockQuery> queries) {
  Scratch scratch(context, queries);
  parallel_for(context, static_cast<std::int64_t>(queries.size()), scratch.work(), [&](std::int64_t i, int thread) {
    best_blocks(queries[static_cast<std::size_t>(i)], scratch.of(thread));
  });
}

}  // namespace skim::reference

// The cache that a soak works on, and what is known of the sequences in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "skim/cache.hpp"
#include "skim/model.hpp"
#include "soak/random.hpp"
#include "soak/shadow.hpp"

namespace skim::cli {

inline constexpr std::int64_t kLongestHistory = 200;  // recomputing costs more than anything else

/// Options of any kind: roomy or tight, tiny pages or large ones.
CacheOptions random_options(Random& random, const Model& model, int most_threads);

struct Tracked {
  SequenceId id;
  History history;
  std::int64_t reached = 0;  ///< Longest it has been since it was last empty.
};

/// Everything about a cache that an operation without effect leaves alone.
struct Snapshot {
  std::int64_t bytes = 0;
  std::vector<std::int64_t> lengths;
  std::vector<std::vector<LengthRange>> restorable;
};

/// What changed, in words; empty if nothing.
std::string difference(const Snapshot& before, const Snapshot& after);

class Subject {
 public:
  Subject(const Model& model, const CacheOptions& cache_options)
      : options(cache_options),
        cache(model, cache_options),
        rolls_back_freely_(cache_cost(model.config(), model.layers()).bytes_fixed == 0) {}

  const CacheOptions options;
  KvCache cache;
  std::list<Tracked> sequences;  ///< Others come and go while one is in hand.

  /// Tokens that a sequence may have.
  std::int64_t longest() const { return std::min(options.max_tokens, kLongestHistory); }
  Tracked& tracked(SequenceId id);
  Tracked& any(Random& random);
  Snapshot snapshot() const;
  /// What is wrong with lengths, restorable lengths or bytes; empty if nothing.
  std::string problem() const;

  /// Whether so many tokens of a batch may be rejected when at least one is accepted.
  bool may_reject(std::int64_t rejected) const { return rolls_back_freely_ || rejected <= options.rollback; }
  bool can_restore(const Tracked& sequence, std::int64_t length) const;
  /// Any length at which the sequence can be restored.
  std::int64_t restorable_length(const Tracked& sequence, Random& random) const;

 private:
  std::string restorable_problem(const Tracked& sequence) const;

  bool rolls_back_freely_;  ///< Nothing is kept in rings: any number of tokens can be taken back.
};

}  // namespace skim::cli

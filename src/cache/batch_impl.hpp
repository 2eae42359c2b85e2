// Inside of Batch: what layers have written so far, and what they hand down the stack.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cache/cache_impl.hpp"
#include "cache/sequence.hpp"
#include "cache/staging.hpp"
#include "kernels/context.hpp"

namespace skim {

struct BatchSequence {
  SequenceId id;
  Sequence* sequence = nullptr;
  std::int64_t start = 0;  ///< Position of the first new token.
  std::int64_t tokens = 0;
  std::int64_t first_token = 0;  ///< Row of the first new token in the batch.
  bool committed = false;
};

/// Ascending lists of positions or block numbers, one per token of the batch.
class Publication {
 public:
  Publication() = default;
  Publication(std::int64_t tokens, std::int64_t longest)
      : longest_(longest),
        entries_(static_cast<std::size_t>(tokens * longest)),
        counts_(static_cast<std::size_t>(tokens)) {}

  std::int64_t longest() const { return longest_; }
  std::int32_t* entries(std::int64_t token) { return entries_.data() + token * longest_; }
  std::int32_t* count(std::int64_t token) { return counts_.data() + token; }
  std::span<const std::int32_t> list(std::int64_t token) const {
    return {entries_.data() + token * longest_, static_cast<std::size_t>(counts_[static_cast<std::size_t>(token)])};
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>((entries_.size() + counts_.size()) * 4); }

 private:
  std::int64_t longest_ = 0;
  std::vector<std::int32_t> entries_, counts_;
};

/// Rows of tables are not staged: they go straight behind the committed ones, where nobody looks until the length says
/// so.
struct Batch::Impl {
  std::shared_ptr<KvCache::Impl> cache;
  std::unique_ptr<Context> context;
  std::vector<BatchSequence> sequences;
  std::vector<std::pair<std::int64_t, std::size_t>> by_id;  ///< (sequence, index in `sequences`), ascending.
  std::int64_t tokens = 0;
  std::vector<bool> ran;  ///< By slot of the layout.
  Staging staging;
  std::map<int, Publication> selections;  ///< By index source.
  std::map<int, Publication> candidates;  ///< By candidate source.
  bool committed = false;                 ///< At least one of the sequences.

  Impl() = default;
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const CacheLayout& layout() const { return *cache->layout; }
  /// Rows of a window as queries of this batch see them.
  WindowRows window(const RingLayout& ring, std::size_t sequence) const;
  /// A row of a ring as tokens of this batch see it: one of the last committed, or one staged.
  const std::byte* ring_row(const RingLayout& ring, std::size_t sequence, std::int64_t position) const;
  /// Throws Error{invalid_argument, wrong_order} if the sequence is not in the batch, or no longer.
  std::size_t find(SequenceId id) const;
  void require_all_ran() const;
  /// Makes the first `accepted` tokens of sequence number `index` part of it.
  void commit(std::size_t index, std::int64_t accepted);
  std::int64_t staged_bytes() const;
};

}  // namespace skim

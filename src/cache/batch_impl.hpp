// Inside of Batch: what layers have written so far, and what they hand down the stack.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cache/cache_impl.hpp"
#include "cache/sequence.hpp"
#include "kernels/context.hpp"

namespace skim {

/// New state of one layer of one sequence, applied by commit. Compressed rows and index keys are not here: they go
/// straight behind the committed rows, where nobody looks until the length says so.
struct StagedLayer {
  Buffer window;  ///< Packed window rows of positions [window_first, window_first + window_rows).
  std::int64_t window_first = 0;
  std::int64_t window_rows = 0;
  Buffer open;  ///< [open_rows, open_floats] of the last new tokens, position p in slot p mod open_rows.
  std::int64_t open_rows = 0;
};

struct BatchSequence {
  SequenceId id;
  Sequence* sequence = nullptr;
  std::int64_t start = 0;  ///< Position of the first new token.
  std::int64_t tokens = 0;
  std::int64_t first_token = 0;  ///< Row of the first new token in the batch.
  std::vector<StagedLayer> layers;
  bool committed = false;

  /// Window rows of a layer as a query of this batch sees them.
  WindowRows window(const LayerLayout& layout, std::size_t slot) const;
  /// Floats that a recent token waits with for its group to close: one of the last before `start`, or a new one.
  float* open_row(const LayerLayout& layout, std::size_t slot, std::int64_t position) const;
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

struct Batch::Impl {
  std::shared_ptr<KvCache::Impl> cache;
  std::unique_ptr<Context> context;
  std::vector<BatchSequence> sequences;
  std::int64_t tokens = 0;
  std::vector<bool> ran;                  ///< By slot of the layout.
  std::map<int, Publication> selections;  ///< By index source.
  std::map<int, Publication> candidates;  ///< By candidate source.
  bool committed = false;                 ///< At least one of the sequences.

  Impl() = default;
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const CacheLayout& layout() const { return *cache->layout; }
  /// Space for the new rows of a layer that commit will put into rings.
  void stage(std::size_t slot);
  /// Keeps only the staged window rows that commit will need.
  void trim(std::size_t slot);
  /// Throws Error{invalid_argument, wrong_order} if the sequence is not in the batch, or no longer.
  BatchSequence& find(SequenceId id);
  void require_all_ran() const;
  /// Makes the first `accepted` tokens part of the sequence.
  void commit(BatchSequence& entry, std::int64_t accepted);
  std::int64_t staged_bytes() const;
};

}  // namespace skim

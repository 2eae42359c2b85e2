// Inside of KvCache: the sequences, the limits, and contexts for batches to run in.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cache/layout.hpp"
#include "cache/sequence.hpp"
#include "kernels/context.hpp"
#include "skim/cache.hpp"

namespace skim {

struct KvCache::Impl {
  std::shared_ptr<const CacheLayout> layout;  ///< Shared with the model, which tells its batches by it.
  CacheOptions options;
  std::map<std::int64_t, Sequence> sequences;
  std::int64_t next_id = 0;
  std::vector<std::unique_ptr<Context>> idle;  ///< Contexts no batch is using: scratch survives from batch to batch.
  std::vector<const Context*> contexts;        ///< All contexts there are.
  std::set<const Batch::Impl*> batches;        ///< Open or committed, not yet destroyed.

  Impl(std::shared_ptr<const CacheLayout> cache_layout, const CacheOptions& cache_options);
  Sequence& find(SequenceId id);
  std::unique_ptr<Context> borrow_context();
  void return_context(std::unique_ptr<Context> context) noexcept;
};

}  // namespace skim

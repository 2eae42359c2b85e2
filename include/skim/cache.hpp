// Key-value caches of many sequences, and the batches that extend them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "skim/model.hpp"

namespace skim {

/// Names a sequence of one KvCache. Never reused within that cache.
struct SequenceId {
  std::int64_t value = -1;
  friend bool operator==(SequenceId, SequenceId) = default;
};

struct CacheOptions {
  std::int64_t max_tokens = 1 << 20;         ///< Longest sequence. V3.2: decides on YaRN.
  std::int64_t max_sequences = 1 << 16;      ///< Sequences at one time.
  std::int64_t max_bytes = 0;                ///< Limit for bytes(); 0: none.
  std::int64_t page_rows = 256;              ///< Compressed rows and index keys are allocated this many at a time.
  std::int64_t workspace_bytes = 256 << 20;  ///< Wanted for activations and scores of a forward call (one token always
                                             ///< fits). Scratch of threads and published selections come on top.
  int threads = 0;                           ///< Threads of a forward call; 0: one per processor.
};

/// Tokens to append to one sequence.
struct BatchEntry {
  SequenceId sequence;
  std::int64_t tokens = 0;
};

/// New tokens for some sequences of a cache. Layers write into the batch; the sequences change when it is committed.
/// Destroyed without commit, it is as if it had never begun. It may outlive its cache. Moved from, it can only be
/// destroyed or assigned to.
class Batch {
 public:
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  std::int64_t tokens() const;
  /// Makes the tokens part of their sequences. Throws Error{wrong_order} naming a layer of the model that has not run.
  void commit();

  struct Impl;
  explicit Batch(std::unique_ptr<Impl> impl);
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Caches of the layers of one model. One thread at a time may call add, remove, begin, commit or drop a batch; forward
/// calls on different batches may run at the same time.
class KvCache {
 public:
  /// Throws Error{invalid_argument} for options out of range.
  explicit KvCache(const Model& model, const CacheOptions& options = {});
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;
  ~KvCache();

  /// A new, empty sequence. Throws Error{limit_exceeded}.
  SequenceId add();
  /// Frees a sequence at once. Throws Error{invalid_argument} if it does not exist, Error{wrong_order} if it is in a
  /// batch.
  void remove(SequenceId sequence);
  /// Committed tokens. Throws Error{invalid_argument} if the sequence does not exist.
  std::int64_t length(SequenceId sequence) const;

  /// Starts a batch. Everything is checked and allocated first: after an error nothing has changed.
  /// Throws Error{invalid_argument} (no entries, fewer than one token, unknown or repeated sequence),
  /// Error{wrong_order} (sequence in another batch), Error{limit_exceeded} naming the limit and the need,
  /// Error{out_of_memory}.
  Batch begin(std::span<const BatchEntry> entries);
  Batch begin(std::initializer_list<BatchEntry> entries) {
    return begin(std::span<const BatchEntry>(entries.begin(), entries.size()));
  }

  /// Bytes that sequences occupy now: pages, window rings, unfinished groups.
  std::int64_t bytes() const;
  /// Bytes of batches and scratch that come on top. Not while a forward call runs.
  std::int64_t workspace_bytes() const;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  Batch begin_batch(std::span<const BatchEntry> entries);

  std::shared_ptr<Impl> impl_;
};

/// What caching costs, from the configuration alone.
struct CacheCost {
  double bytes_per_token = 0;    ///< Growth with context: compressed rows and index keys.
  std::int64_t bytes_fixed = 0;  ///< Per sequence: window rings and unfinished groups.
  std::int64_t bytes_at(std::int64_t tokens) const {
    return bytes_fixed + std::llround(std::min(bytes_per_token * static_cast<double>(tokens), 0x1p62));
  }
};
/// Cost of one sequence over these layers. Throws Error{invalid_argument} for a layer that does not exist.
CacheCost cache_cost(const Config& config, std::span<const int> layers);

}  // namespace skim

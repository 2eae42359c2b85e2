// Key-value caches of many sequences, and the batches that extend them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "skim/model.hpp"

namespace skim {

/// Names a sequence of one KvCache. Never reused within that cache. Ordered (later sequences are greater) and hashable,
/// so that it can be the key of std::map and std::unordered_map.
struct SequenceId {
  std::int64_t value = -1;
  friend bool operator==(SequenceId, SequenceId) = default;
  friend auto operator<=>(SequenceId, SequenceId) = default;
};

struct CacheOptions {
  std::int64_t max_tokens = 1 << 20;     ///< Longest sequence. V3.2: decides on YaRN.
  std::int64_t max_sequences = 1 << 16;  ///< Sequences at one time.
  std::int64_t max_bytes = 0;            ///< Limit for bytes(); 0: none.
  std::int64_t rollback = 0;             ///< Latest tokens of a sequence that can be taken back: see Batch::commit and
                                         ///< KvCache::restorable.
  std::int64_t page_rows = 256;          ///< Compressed rows and index keys are allocated this many at a time; the
                                         ///< first ones 1, 2, 4, ... at a time.
  std::int64_t workspace_bytes = 256 << 20;  ///< Wanted for activations and scores of a forward call (one token always
                                             ///< fits). Scratch of threads and published selections come on top.
  int threads = 0;                           ///< Threads of a forward call; 0: one per processor.
};

/// Lengths first, first + 1, ..., last.
struct LengthRange {
  std::int64_t first = 0, last = 0;
  friend bool operator==(LengthRange, LengthRange) = default;
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
  /// Makes the first `accepted` tokens of one sequence part of it, exactly as if only those had been fed, and takes it
  /// out of the batch. Sequences that are still in the batch when it is destroyed stay as they were. After the first
  /// commit no layer can run any more. Throws Error{wrong_order} as above or if the sequence is committed already,
  /// Error{invalid_argument} if it is not in the batch or has fewer tokens in it, Error{limit_exceeded} if some tokens
  /// are accepted and more than CacheOptions::rollback rejected (V4.1; V3.2 can reject any number).
  void commit(SequenceId sequence, std::int64_t accepted);

  struct Impl;

 private:
  friend class KvCache;
  friend struct Access;
  explicit Batch(std::unique_ptr<Impl> impl);
  Impl& impl() { return *impl_; }

  std::unique_ptr<Impl> impl_;
};

/// Caches of the layers of one model. One thread at a time may use a cache: call any function of it, commit a batch or
/// drop one. Forward calls on different batches may run at the same time.
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

  /// A new sequence that begins with the first `tokens` tokens of another (default: all) and shares their rows: it takes
  /// no bytes(), and microseconds however many tokens are shared. The first of both that goes on copies the last page of
  /// each kind if it is not full, and the rings. Throws Error{invalid_argument} naming the lengths that can be restored,
  /// Error{limit_exceeded} if there are too many sequences, Error{wrong_order} if the sequence is in a batch,
  /// Error{out_of_memory}.
  SequenceId fork(SequenceId sequence);
  SequenceId fork(SequenceId sequence, std::int64_t tokens);
  /// Forgets the tokens behind the first `tokens`. Throws like fork; then nothing has changed.
  void truncate(SequenceId sequence, std::int64_t tokens);
  /// Lengths to which a sequence can be truncated and at which it can be forked, ascending. V3.2: all up to its own.
  /// V4.1: 0, its own length, and earlier ones of which the window and an unfinished group are still there. For
  /// example with a window of 8, groups of 2 and rollback 2, after 40 tokens: 0, and 38 to 40. The window still holds
  /// the rows of 30 to 39, enough for a token at 37; but that one's group began at 36, of which nothing is left.
  std::vector<LengthRange> restorable(SequenceId sequence) const;

  /// Writes a sequence to a file (safetensors) under a temporary name, flushes it and renames it over `path`: at any
  /// moment there is the old file or the whole new one. Throws Error{wrong_order} if the sequence is in a batch,
  /// Error{io}, Error{out_of_memory}.
  void save(SequenceId sequence, const std::filesystem::path& path) const;
  /// A new sequence from such a file, of the same configuration, layers and weights, any kernel set, page size and
  /// rollback. Everything is checked, a checksum over the whole file included. Pages stay in the mapped file, outside
  /// bytes(), until they are written; so the file must not be changed in place, but may be replaced or deleted.
  /// Throws Error{io}, Error{bad_file} naming what is damaged or whose model it is, Error{limit_exceeded},
  /// Error{out_of_memory}.
  SequenceId load(const std::filesystem::path& path);

  /// Starts a batch. Everything is checked and allocated first: after an error nothing has changed.
  /// Throws Error{invalid_argument} (no entries, fewer than one token, unknown or repeated sequence),
  /// Error{wrong_order} (sequence in another batch), Error{limit_exceeded} naming the limit and the need,
  /// Error{out_of_memory}.
  Batch begin(std::span<const BatchEntry> entries);
  Batch begin(std::initializer_list<BatchEntry> entries) {
    return begin(std::span<const BatchEntry>(entries.begin(), entries.size()));
  }

  /// Why begin would refuse these entries now; nothing if it would not.
  std::optional<std::string> admission_problem(std::span<const BatchEntry> entries) const;
  bool can_admit(std::span<const BatchEntry> entries) const { return !admission_problem(entries).has_value(); }
  bool can_admit(std::initializer_list<BatchEntry> entries) const {
    return can_admit(std::span<const BatchEntry>(entries.begin(), entries.size()));
  }

  /// Bytes that sequences occupy now: pages (a shared one once), window rings, unfinished groups.
  std::int64_t bytes() const;
  /// Bytes of batches and scratch that come on top. Not while a forward call runs.
  std::int64_t workspace_bytes() const;

  struct Impl;

 private:
  friend struct Access;
  Impl& impl() const { return *impl_; }
  Batch begin_batch(std::span<const BatchEntry> entries);

  std::shared_ptr<Impl> impl_;
};

/// What caching costs, from the configuration alone.
struct CacheCost {
  double bytes_per_token = 0;    ///< Growth with a long context: compressed rows and index keys.
  std::int64_t bytes_fixed = 0;  ///< Per sequence, once it is long: window rings and unfinished groups.

  /// What KvCache::bytes() says of one sequence after so many tokens: pages and rings as they are allocated. Both begin
  /// small and double, pages up to CacheOptions::page_rows, rings up to bytes_fixed. No more than 2^62.
  std::int64_t bytes_at(std::int64_t tokens) const;

  /// Rows of one kind.
  struct Rows {
    std::int64_t bytes = 0;           ///< Of one.
    std::int64_t tokens = 1;          ///< Per row.
    std::int64_t most = 0;            ///< That there are ever; 0: no limit.
    std::int64_t doubling_up_to = 0;  ///< Rows are allocated a power of two at a time up to here, then as many again.
  };
  std::vector<Rows> rows;
};
/// Cost of one sequence of a cache with these options over these layers. Throws Error{invalid_argument} for a layer
/// that does not exist, or options out of range.
CacheCost cache_cost(const Config& config, std::span<const int> layers, const CacheOptions& options);
/// The same with rollback as given and otherwise default options.
CacheCost cache_cost(const Config& config, std::span<const int> layers, std::int64_t rollback = 0);

}  // namespace skim

template <>
struct std::hash<skim::SequenceId> {
  std::size_t operator()(skim::SequenceId id) const noexcept { return std::hash<std::int64_t>()(id.value); }
};

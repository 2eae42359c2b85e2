// A stack of layers fed with made-up hidden states, and everything it produced, for comparing bit by bit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/small_models.hpp"
#include "skim/skim.hpp"

namespace skim::test {

/// What came out for one sequence, by layer and position.
struct Outcome {
  std::map<int, std::vector<bf16>> out;  ///< [tokens, dim]
  std::map<int, std::map<std::int64_t, std::vector<std::int32_t>>> selected, candidates;
  std::vector<std::byte> state;  ///< Of the cache, see state_bytes.
};

/// The first difference, in words; empty if there is none.
std::string difference(const Outcome& a, const Outcome& b);

/// Committed state of a sequence that later tokens can depend on: length, window rows by position, compressed rows,
/// index keys, unfinished groups.
std::vector<std::byte> state_bytes(const KvCache& cache, SequenceId sequence);

/// Keeps the named tensors that layers show, row by row, and what every query could choose from.
class Tape final : public Trace {
 public:
  using Rows = std::map<std::int64_t, std::vector<bf16>>;  ///< By position or group.

  explicit Tape(std::set<std::string, std::less<>> names) : names_(std::move(names)) {}
  bool wants(std::string_view name) override { return names_.contains(name); }
  void rows(const TraceRows& event) override;
  void scores(const TraceScores& event) override;
  void selection(const TraceSelection& event) override;

  /// Empty if the tensor was not shown.
  const Rows& tensor(int layer, const std::string& name, int sequence = 0) { return rows_[{layer, name, sequence}]; }
  /// The same of a tensor kept in float32, of sequence 0.
  const std::map<std::int64_t, std::vector<float>>& floats(int layer, const std::string& name) {
    return floats_[{layer, name}];
  }
  const std::vector<float>& score_row(int layer, std::int64_t position) { return scores_[{layer, position}]; }
  std::int64_t limit(int layer, std::int64_t position) const { return limits_.at({layer, position}); }

 private:
  std::set<std::string, std::less<>> names_;
  std::map<std::tuple<int, std::string, int>, Rows> rows_;
  std::map<std::pair<int, std::string>, std::map<std::int64_t, std::vector<float>>> floats_;
  std::map<std::pair<int, std::int64_t>, std::vector<float>> scores_;
  std::map<std::pair<int, std::int64_t>, std::int64_t> limits_;
};

/// Tokens for a sequence of which only the first are accepted. The others are drafts of their own: they differ from
/// what the sequence has there later.
struct Draft {
  std::string name;
  std::int64_t tokens = 0;
  std::optional<std::int64_t> accepted;  ///< Nothing: it is still in the batch when that is dropped.
};

/// Sequences of one cache; `name` of a sequence determines its hidden states.
class Stack {
 public:
  Stack(const Model& model, const CacheOptions& options) : model_(model), options_(options), cache_(model, options) {}

  KvCache& cache() { return cache_; }
  void add(const std::string& name);
  /// A sequence that is in the cache already; outcomes are recorded from now on.
  void adopt(const std::string& name, SequenceId id);
  void remove(const std::string& name);
  /// From now on this token of `name` is the one that `other` has there.
  void put(const std::string& name, std::int64_t position, const std::string& other) { put_[{name, position}] = other; }
  /// Shows every later batch to `watcher` too.
  void watch(Trace* watcher) { watcher_ = watcher; }
  /// One batch: so many tokens for each named sequence, in this order.
  void feed(const std::vector<std::pair<std::string, std::int64_t>>& tokens);
  /// The same batch, dropped instead of committed; outcomes are not recorded.
  void feed_and_drop(const std::vector<std::pair<std::string, std::int64_t>>& tokens);
  /// One batch of which each sequence keeps what was accepted.
  void speculate(const std::vector<Draft>& drafts);
  /// The same batch, before anything is committed. Outcomes are recorded for what is accepted.
  Batch run(const std::vector<Draft>& drafts);
  /// `child` begins with tokens of `name` and goes on with its own.
  void fork(const std::string& name, const std::string& child, std::int64_t tokens);
  void truncate(const std::string& name, std::int64_t tokens);
  SequenceId id(const std::string& name) const { return ids_.at(name); }
  /// Everything so far, with the state of the cache now.
  Outcome outcome(const std::string& name) const;
  /// A sequence of a cache of its own that was fed the same tokens, in one batch.
  const Outcome& alone(const std::string& name);
  std::string difference_from_alone(const std::string& name);

 private:
  /// Keeps what came out for the accepted tokens.
  void record(const Draft& draft, const Outcome& outcome, const std::vector<std::string>& sources);
  /// Whose hidden states the sequence has at this position.
  std::string source(const std::string& name, std::int64_t position) const;
  /// Forgets what came out behind the first tokens.
  void forget(const std::string& name, std::int64_t tokens);

  const Model& model_;
  CacheOptions options_;
  KvCache cache_;
  std::map<std::string, SequenceId> ids_;
  std::map<std::string, Outcome> outcomes_;
  std::map<std::string, std::vector<std::string>> sources_;  ///< Of the committed tokens.
  std::map<std::vector<std::string>, Outcome> alone_;        ///< By the same.
  std::map<std::pair<std::string, std::int64_t>, std::string> put_;
  Trace* watcher_ = nullptr;
};

/// A lone sequence fed in these pieces.
Outcome run_alone(const Model& model, const CacheOptions& options, const std::string& name,
                  const std::vector<std::int64_t>& pieces);

/// Hidden states of one token.
std::vector<bf16> hidden_state(const std::string& sequence, int layer, std::int64_t position, std::int64_t dim);

}  // namespace skim::test

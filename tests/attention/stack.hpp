// A stack of layers fed with made-up hidden states, and everything it produced, for comparing bit by bit.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "skim/skim.hpp"

namespace skim::test {

/// Named configurations of every model that between them have every role and unusual shapes.
Config small_config(const std::string& name);
/// Their names.
std::vector<std::string> small_config_names();

/// One layer of v41-tiny's shape with bf16 weights; a ratio makes it a source of its own.
V41Config one_layer(int ratio);

/// Synthetic weights with some bf16 tensors exchanged, by way of a temporary file.
Checkpoint with_tensors(const Config& config, const std::map<std::string, std::vector<bf16>>& changed);

/// What came out for one sequence, by layer and position.
struct Outcome {
  std::map<int, std::vector<bf16>> out;  ///< [tokens, dim]
  std::map<int, std::map<std::int64_t, std::vector<std::int32_t>>> selected, candidates;
  std::vector<std::byte> state;  ///< Of the cache, see state_bytes.
};

/// The first difference, in words; empty if there is none.
std::string difference(const Outcome& a, const Outcome& b);

/// Committed state of a sequence: length, window rows by position, compressed rows, index keys, unfinished groups.
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

/// Sequences of one cache; `name` of a sequence determines its hidden states.
class Stack {
 public:
  Stack(const Model& model, const CacheOptions& options) : model_(model), cache_(model, options) {}

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
  SequenceId id(const std::string& name) const { return ids_.at(name); }
  /// Everything so far, with the state of the cache now.
  Outcome outcome(const std::string& name) const;

 private:
  Batch run(const std::vector<std::pair<std::string, std::int64_t>>& tokens, bool record);

  const Model& model_;
  KvCache cache_;
  std::map<std::string, SequenceId> ids_;
  std::map<std::string, Outcome> outcomes_;
  std::map<std::pair<std::string, std::int64_t>, std::string> put_;
  Trace* watcher_ = nullptr;
};

/// A lone sequence fed in these pieces.
Outcome run_alone(const Model& model, const CacheOptions& options, const std::string& name,
                  const std::vector<std::int64_t>& pieces);

/// Hidden states of one token.
std::vector<bf16> hidden_state(const std::string& sequence, int layer, std::int64_t position, std::int64_t dim);

}  // namespace skim::test

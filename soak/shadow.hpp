// What sequences were fed and what came out of them, and the same computed again from nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "skim/cache.hpp"
#include "skim/model.hpp"
#include "soak/random.hpp"

namespace skim::cli {

using Token = std::int32_t;
/// Outputs of one token: the layers of the model one after the other.
using TokenOutputs = std::vector<bf16>;

/// Everything a sequence was fed, and what came out.
struct History {
  std::vector<Token> tokens;
  std::vector<TokenOutputs> outputs;

  std::int64_t length() const { return static_cast<std::int64_t>(tokens.size()); }
  void append(std::span<const Token> new_tokens, std::span<const TokenOutputs> new_outputs);
  void truncate(std::int64_t length);
};

/// The first difference, in words; empty if there is none. `layers` are those of the model.
std::string difference(const History& found, const History& expected, std::span<const int> layers);

/// Tokens to feed to one sequence of a batch.
struct Portion {
  SequenceId sequence;
  std::int64_t start = 0;  ///< Position of the first.
  std::vector<Token> tokens;

  std::int64_t count() const { return static_cast<std::int64_t>(tokens.size()); }
};

std::vector<BatchEntry> entries_of(std::span<const Portion> portions);
std::vector<Token> random_tokens(Random& random, std::int64_t count);

/// Runs the first `layer_count` layers on hidden states that follow from token, layer and position. Returns outputs by
/// portion and token.
std::vector<std::vector<TokenOutputs>> forward(const Model& model, Batch& batch, std::span<const Portion> portions,
                                               std::size_t layer_count);

/// One sequence alone in a cache of its own.
class Replay {
 public:
  Replay(const Model& model, const CacheOptions& options) : model_(model), cache_(model, options), id_(cache_.add()) {}

  /// Feeds all of it as one batch.
  void feed(std::span<const Token> tokens);
  /// Feeds it in pieces of random length.
  void feed(std::span<const Token> tokens, Random& random);
  const History& history() const { return history_; }

 private:
  const Model& model_;
  KvCache cache_;
  SequenceId id_;
  History history_;
};

}  // namespace skim::cli

// What operations of a soak are made of: calls to the cache with their expectations, and the check of a sequence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skim/error.hpp"
#include "soak/random.hpp"
#include "soak/report.hpp"
#include "soak/shadow.hpp"
#include "soak/subject.hpp"

namespace skim::cli {

/// Each function that calls the cache also says what must come of it, and notes what its sequences were fed.
class SoakTable {
 public:
  using Outputs = std::vector<std::vector<TokenOutputs>>;  ///< By portion and token.

  SoakTable(const Model& soaked_model, std::uint64_t seed) : model(soaked_model), random(seed) {}

  const Model& model;
  Random random;
  SoakReport report;
  std::unique_ptr<Subject> subject;

  /// Remembers the first difference.
  void expect(bool holds, const std::string& otherwise);
  void expect_none(const std::string& difference) { expect(difference.empty(), difference); }
  /// What the operation is about, for the report.
  void say(std::string doing) { report.doing = std::move(doing); }

  /// Whether the call went through. Refused, it must be with this code and without effect.
  bool goes_through(const std::function<void()>& call, ErrorCode otherwise);

  std::optional<SequenceId> add();
  std::optional<SequenceId> fork(const Tracked& parent, std::int64_t length);
  /// What was saved from `original` a moment ago.
  void load(const std::filesystem::path& file, const Tracked& original);
  void truncate(Tracked& sequence, std::int64_t length);
  void remove(SequenceId id);
  /// Nothing if a limit of the cache forbids it.
  std::optional<Batch> begin(const std::vector<Portion>& portions);
  Outputs forward_all(Batch& batch, const std::vector<Portion>& portions) const {
    return forward(model, batch, portions, model.layers().size());
  }
  /// One batch from begin to commit.
  void extend(const std::vector<Portion>& portions);
  /// Notes that the first `accepted` tokens of a portion have been committed.
  void accept(const Portion& portion, const std::vector<TokenOutputs>& outputs, std::int64_t accepted);

  /// 1 to `longest` tokens for a sequence, fewer if it may not have so many, half of the time one.
  Portion draw_portion(const Tracked& sequence, std::int64_t longest);
  /// The same for 1 to 4 sequences, without those that are full.
  std::vector<Portion> draw_portions(std::int64_t longest);

  /// Computes a sequence again from nothing, then feeds both a little more: all outputs must be the same.
  void check(const Tracked& sequence);
  void check_all();

 private:
  /// The sequence continued, which is then taken back. Nothing if a limit forbids it.
  std::optional<History> continued(const Tracked& sequence, const std::vector<Token>& tokens);
  void note_bytes();
};

}  // namespace skim::cli

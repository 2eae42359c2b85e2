// Collects judgements in order of computation and turns them into a report.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/recorded.hpp"
#include "skim/verify.hpp"
#include "verify/compare.hpp"

namespace skim {

/// docs/cases.md, Judging: an exchanged entry lies this close to the cut-off score, relative to the largest score ...
inline constexpr double kSelectionAllowance = 0x1p-7;
/// ... except in this share of a file's rows, which may need as much as kSelectionLimit.
inline constexpr double kLooseShare = 0.01;
inline constexpr double kSelectionLimit = 0x1p-5;

/// What chooses among the allowances of a kind.
struct Allowances {
  bool reference = false;            ///< Kernel set.
  bool fp8 = false;                  ///< Weights.
  std::optional<double> everywhere;  ///< Overrides the standard ones.

  double of(const RecordedKind& kind) const;
};

class ReportBuilder {
 public:
  /// `known`: all kinds in order of computation.
  ReportBuilder(Allowances allowances, std::span<const RecordedKind> known) : allowances_(allowances), known_(known) {}

  /// A whole numeric tensor. `place` is e.g. "call 3 layer 2".
  void numeric(std::string_view kind, const std::string& place, double error);
  /// A numeric tensor that cannot be compared at all; `reason` completes "latent ...".
  void incomparable(std::string_view kind, const std::string& place, const std::string& reason);
  /// One row of a selection; `place` also names sequence and row.
  void selection(std::string_view kind, const std::string& place, const SelectionDifference& difference);
  /// Fills in kinds and first_failure.
  void finish(VerifyReport& report);

 private:
  struct Failure {
    std::size_t order;  ///< Running number of the judgement.
    std::string text;
  };

  VerifyKind& kind(std::string_view name);
  void fail(VerifyKind& kind, std::string text);

  Allowances allowances_;
  std::span<const RecordedKind> known_;
  std::map<std::string, VerifyKind, std::less<>> kinds_;
  std::map<std::string, std::vector<Failure>, std::less<>> loose_;  ///< Selection rows beyond the allowance.
  std::vector<Failure> failures_;
  std::size_t judged_ = 0;
};

}  // namespace skim

// Collects judgements in order of computation and turns them into a report.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/recorded.hpp"
#include "skim/verify.hpp"
#include "verify/compare.hpp"
#include "verify/numeric_judge.hpp"

namespace skim {

/// docs/cases.md, Judging. A call with fewer tokens than this in the file is judged together with others of its kind.
inline constexpr std::int64_t kLongCall = 16;
/// A row, or a head of a row, may be this far off; codes may flip.
inline constexpr double kRowBound = 0.1, kCodeRowBound = 0.25;
/// An exchanged entry lies this close to the cut-off score, relative to the largest score ...
inline constexpr double kSelectionAllowance = 0x1p-7, kOptimizedSelectionAllowance = 0x1p-6;
/// ... except in this share of a file's recorded rows, at least one, which may need as much as kSelectionLimit.
inline constexpr double kLooseShare = 0.01;
inline constexpr double kSelectionLimit = 0x1p-5;

struct Allowances {
  bool reference = false;            ///< Kernel set.
  bool fp8 = false;                  ///< Weights.
  int world_size = 1;                ///< Ranks of the recorded implementation.
  std::optional<double> everywhere;  ///< Overrides the standard ones.

  double of(const RecordedKind& kind) const;
  double row_bound(const RecordedKind& kind) const;
};

/// Calls of a tensor that are judged together.
enum class Company { alone, one_token, few_tokens };

class ReportBuilder {
 public:
  ReportBuilder(Allowances allowances, const CaseFile& file) : allowances_(allowances), file_(file) {}

  /// A whole numeric tensor.
  void numeric(const NumericComparison& comparison, std::int64_t call, int layer);
  /// A tensor that cannot be compared at all; `reason` completes "latent ...".
  void incomparable(const RecordedKind& kind, const VerifyPlace& place, const std::string& reason);
  /// One row of a selection.
  void selection(const RecordedKind& kind, const VerifyPlace& place, const SelectionDifference& difference);
  /// Fills in everything that judging knows.
  void finish(VerifyReport& report);

 private:
  struct Failure {
    std::size_t order = 0;  ///< Running number of the judgement.
    std::string tensor, text;
    VerifyPlace place;
    double error = 0;
  };
  /// Short calls of one tensor name (and, for the tables, layer).
  struct Pool {
    ErrorSum sum;
    std::int64_t calls = 0;
    std::vector<Failure> over;  ///< Calls that are over by themselves.
  };
  using Pools = std::array<Pool, 3>;        ///< By Company.
  using Key = std::pair<int, std::string>;  ///< Layer (-1: all of them) and tensor.

  Company company(const NumericComparison& comparison, std::int64_t call) const;
  VerifyKind& kind(int layer, std::string_view name, const RecordedKind& recorded);
  void fail(int layer, Failure failure);
  void count(const NumericComparison& comparison, VerifyKind& entry, const VerifyPlace& place, double error,
             Company company);
  void judge_numbers(const NumericComparison& comparison, const VerifyPlace& place, Company company);
  void keep(const NumericComparison& comparison, const VerifyPlace& place);
  void finish_pools();
  void finish_loose();
  std::int64_t recorded_rows(std::string_view kind) const;
  /// Place of a tensor in the order of computation.
  std::size_t order_of(std::string_view name) const;
  void describe_failures(VerifyReport& report);

  Allowances allowances_;
  const CaseFile& file_;
  std::map<Key, VerifyKind> kinds_;
  std::map<Key, Pools> pools_;
  std::map<std::string, std::vector<Failure>, std::less<>> loose_;  ///< Selection rows beyond the allowance.
  std::vector<Failure> failures_;
  std::vector<VerifyTensor> failing_;
  std::size_t kept_errors_ = 0;
  std::size_t judged_ = 0;
};

}  // namespace skim

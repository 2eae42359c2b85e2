// How far a result is from a recording: docs/cases.md, Judging.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace skim {

/// Squared norms over the entries that are finite on both sides.
struct ErrorSum {
  double difference = 0, reference = 0;
  bool unlike = false;  ///< An entry is finite on one side only.

  void add(const ErrorSum& other);
  /// ||got - want|| / ||want||; infinite if unlike, or where something was computed and all zeros were recorded.
  double relative() const;
};

/// Error of one row. Entries that `got` lacks count as -inf, as scores of positions that a query cannot see do.
ErrorSum compare_row(std::span<const float> got, std::span<const float> want);

/// Of a row whose tensor's rows have a root mean square norm of `typical`.
double relative_row_error(const ErrorSum& row, double typical);

/// A selection compared with the recorded one.
struct SelectionDifference {
  bool exchanged = false;  ///< Any difference at all.
  /// Largest distance of an exchanged entry's score from the recorded cut-off, relative to the largest visible score;
  /// infinite if the recorded selection is impossible.
  double distance = 0;
  std::string fault = {};  ///< Why it is impossible, a clause that begins with a verb.
};

struct SelectionScores {
  std::vector<float> all;      ///< Of all visible positions.
  std::vector<float> allowed;  ///< The same, -inf where a mask forbids a position.
};

/// Both selections ascending. `count`: how many entries a selection must have.
SelectionDifference compare_selection(const SelectionScores& scores, std::int64_t count,
                                      std::span<const std::int32_t> got, std::span<const std::int32_t> want);

/// Best score of each block of visible positions.
std::vector<float> block_scores(std::span<const float> scores, int block_size);

}  // namespace skim

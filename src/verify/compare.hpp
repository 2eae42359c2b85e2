// How far a result is from a recording: docs/cases.md, Judging.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace skim {

/// Sums of a relative error taken over many rows.
struct ErrorSum {
  double difference = 0, reference = 0;  ///< Squared norms.

  /// Adds one row. Entries that are not finite add nothing but must be the same on both sides (an absent entry of `got`
  /// counts as -inf); otherwise the error becomes infinite.
  void add(std::span<const float> got, std::span<const float> want);
  /// ||got - want|| / ||want||
  double relative() const;
};

/// A selection compared with the recorded one.
struct SelectionDifference {
  bool exchanged = false;  ///< Any difference at all.
  /// Largest distance of an exchanged entry's score from the recorded cut-off, relative to the largest visible score;
  /// infinite if the recorded selection is impossible.
  double distance = 0;
};

/// Both selections ascending; `scores` of all visible positions, -inf where a mask forbids a position.
SelectionDifference compare_selection(std::span<const float> scores, std::span<const std::int32_t> got,
                                      std::span<const std::int32_t> want);

/// Best score of each block of visible positions.
std::vector<float> block_scores(std::span<const float> scores, int block_size);

}  // namespace skim

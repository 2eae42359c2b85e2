// Rotary position embedding: frequencies with and without YaRN, and the angles of given positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "skim/tensor.hpp"

namespace skim {

struct RopeParameters {
  int width = 0;  ///< Rotated elements; pairs of them share a frequency.
  double theta = 0;
  std::int64_t original_seq_len = 0;  ///< 0: no YaRN.
  double factor = 1, beta_fast = 32, beta_slow = 1;
};

class RopeTable {
 public:
  RopeTable() = default;
  /// float32 frequencies as in the published precompute_freqs_cis.
  explicit RopeTable(const RopeParameters& parameters);

  std::int64_t pairs() const { return static_cast<std::int64_t>(frequencies_.size()); }
  const std::vector<float>& frequencies() const { return frequencies_; }
  /// Cosine and sine of the float32 angle position * frequency. cos_sin: [positions, pairs, 2].
  void fill(std::span<const std::int64_t> positions, View<float, 3> cos_sin) const;

 private:
  std::vector<float> frequencies_;
};

}  // namespace skim

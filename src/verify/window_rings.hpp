// The window of every sequence of a layer, as the published decode step keeps it: slot p mod window, empty slots zero.
#pragma once

#include <cstdint>
#include <vector>

#include "skim/trace.hpp"

namespace skim {

class WindowRings {
 public:
  WindowRings() = default;
  /// `slots`: those that the longest sequence of a recording fills, at most the window.
  WindowRings(int sequences, std::int64_t slots, std::int64_t window, std::int64_t width);

  void update(const TraceRows& event);
  /// A slot, widened.
  std::vector<float> row(int sequence, std::int64_t slot) const;

 private:
  std::int64_t slots_ = 0, window_ = 1, width_ = 0;
  std::vector<std::vector<bf16>> rings_;  ///< [sequences][slots, width]
};

}  // namespace skim

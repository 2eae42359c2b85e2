// What skim itself computes, as a recording.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "attention/small_models.hpp"
#include "verify/recording.hpp"

namespace skim::test {

class SelfRecording : public Recording {
 public:
  /// One sequence on made-up weights, with `portable` kernels; `calls`: tokens of each. `names`: bf16 tensors of tokens
  /// to record.
  SelfRecording(const Config& config, const std::vector<std::int64_t>& calls,
                const std::set<std::string, std::less<>>& names);
};

}  // namespace skim::test

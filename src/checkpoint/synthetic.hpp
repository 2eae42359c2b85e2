// filler/1: tensors computed from their names (docs/cases.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "checkpoint/tensor_source.hpp"
#include "skim/config.hpp"

namespace skim {

/// The stream of one tensor: element i as a number uniform in [-1, 1) or as 24 random bits.
class FillerStream {
 public:
  FillerStream(std::string_view name, std::uint64_t seed);
  std::uint64_t bits(std::uint64_t element) const;  ///< 24 bits.
  double value(std::uint64_t element) const { return 2.0 * (static_cast<double>(bits(element)) / 0x1p24) - 1.0; }

 private:
  std::uint64_t start_;
};

/// All attention tensors of a configuration.
std::shared_ptr<const TensorSource> make_synthetic_source(const Config& config, std::uint64_t seed);

}  // namespace skim

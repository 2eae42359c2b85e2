// A tensor of a recording and what its rows are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "skim/tensor.hpp"

namespace skim {

/// A recorded tensor of one call and layer, first axis the sequence, second axis the recorded rows.
struct RecordedTensor {
  std::string name;  ///< Full name in the file.
  Tensor tensor;
  std::vector<std::int64_t> rows;  ///< Row of the call (or group closed by it, or ring slot) that each recorded row is.
  std::int64_t width = 0;          ///< Elements per row.

  std::int64_t row_count() const { return static_cast<std::int64_t>(rows.size()); }
  /// Index among the recorded rows, or -1.
  std::int64_t find(std::int64_t row) const;
  /// Row `i` of sequence `sequence`, widened. BF16, F32 or F8_E4M3.
  std::vector<float> floats(int sequence, std::int64_t i) const;
  /// The same for I32 or I64.
  std::vector<std::int64_t> integers(int sequence, std::int64_t i) const;
  /// The same for BOOL.
  std::vector<bool> booleans(int sequence, std::int64_t i) const;
};

/// An element of bytes that need not be aligned.
template <class T>
T tensor_element(const Tensor& tensor, std::int64_t index);

}  // namespace skim

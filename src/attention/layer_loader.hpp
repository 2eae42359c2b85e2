// Tensors of one layer of a checkpoint, as kernels want them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/digest.hpp"
#include "kernels/kernels.hpp"
#include "skim/checkpoint.hpp"

namespace skim {

/// A matrix in plain bf16.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<bf16> values;  ///< [rows, columns]

  const bf16* row(std::int64_t i) const { return values.data() + i * columns; }
};

/// Names are those behind the layer's prefix; the tensors were found to be there and of the right shape and dtype.
class LayerLoader {
 public:
  /// Everything that is loaded is added to `fingerprint`.
  LayerLoader(const Checkpoint& checkpoint, int layer, const Kernels& kernels, Memory& memory, Digest& fingerprint);

  std::vector<float> vector(const std::string& name) const;
  /// As the checkpoint stores it. float32 values that are all bf16 are packed as such.
  Weight weight(const std::string& name) const;
  /// bf16 whatever the checkpoint holds; fp8 codes times their scales are rounded to bf16, as published.
  Matrix matrix(const std::string& name) const;
  /// `matrix` cut into equal shares of its rows, each a weight of its own.
  std::vector<Weight> row_groups(const std::string& name, int groups) const;
  /// Packs [rows, columns] values.
  Weight pack(const bf16* values, std::int64_t rows, std::int64_t columns) const;

 private:
  /// Of this full name.
  Tensor tensor(const std::string& name) const;

  const Checkpoint& checkpoint_;
  std::string prefix_;
  Fp8Scale input_scale_;
  const Kernels& kernels_;
  Memory& memory_;
  Digest& fingerprint_;
};

}  // namespace skim

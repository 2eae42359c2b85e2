// Hidden states for skim run: from a file, or made up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "skim/safetensors.hpp"
#include "skim/tensor.hpp"

namespace skim::cli {

/// Rows of one layer's input by position. A file holds `layer.<i>.x` for each layer, or `x` for all of them: BF16
/// [tokens, dim]. Without a file every row is made from its layer and position, so that how tokens are split between
/// prefill and decode does not change them.
class RunInput {
 public:
  /// `file` may be empty. Throws Error if a layer's tensor is missing or has another width.
  RunInput(const std::string& file, const std::vector<int>& layers, std::int64_t dim);

  /// Rows in the file; nothing without one.
  std::optional<std::int64_t> rows() const { return rows_; }
  /// Copies rows [first, first + out.shape[0]) of a layer.
  void read(int layer, std::int64_t first, View<bf16, 2> out) const;

 private:
  std::string name_for(int layer) const;

  std::optional<SafetensorsFile> file_;
  std::optional<std::int64_t> rows_;
};

}  // namespace skim::cli

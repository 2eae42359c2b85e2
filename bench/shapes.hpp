// What a model's configuration says about the sizes of operations, the same for all models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "models/family.hpp"
#include "skim/checkpoint.hpp"
#include "skim/config.hpp"

namespace skim::bench {

struct Shapes : ModelShape {
  RowLayout window_row, row, key_row;

  /// Operations of one query's dot products with one index key.
  double index_operations() const { return 2.0 * index_heads * key_row.width; }
  /// Of one query's attention to one row: logits and average.
  double attend_operations() const { return 2.0 * heads * static_cast<double>(key_width + value_width); }
  /// Scores of fp4 keys are dot products of small integers.
  bool has_integer_keys() const { return key_row.format == RowFormat::fp4_e8m0; }
};
Shapes shapes_of(const Config& config);

/// A matrix as a layer multiplies with it.
struct LinearShape {
  WeightFormat format;
  double bytes = 0;        ///< Codes and scales.
  int count = 1;           ///< Of this shape, e.g. one per head.
  int tokens_per_row = 1;  ///< Tokens for which one row is multiplied.
};
/// Every matrix of a layer.
std::vector<LinearShape> linear_shapes(const Checkpoint& checkpoint, int layer);

/// The first layer of each role and ratio, with all sources they need; ascending.
std::vector<int> layers_of_each_role(const Config& config);

}  // namespace skim::bench

// Single operations on the shapes of a model.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/ceilings.hpp"
#include "bench/shapes.hpp"
#include "kernels/registry.hpp"
#include "skim/checkpoint.hpp"

namespace skim::bench {

/// An operation with its operands, ready to be called again and again.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void run() = 0;
  /// If the operation is given its operand by another one, where that lies: it counts as read from the caches, as far
  /// as it fits there. Otherwise operands come from memory, and successive calls take different ones for that.
  virtual std::span<const std::byte> input() const { return {}; }
};

struct Operation {
  std::string name;   ///< e.g. "linear"
  std::string shape;  ///< e.g. "16 x 5120 -> 1280 fp8_e8m0"
  Work work;
  /// Operands take up to some hundred megabytes, so they are made when they are needed.
  std::function<std::unique_ptr<Subject>(const KernelSet&, Context&)> make;

  std::string title() const { return name + " " + shape; }
};

/// All that layers of this model consist of.
std::vector<Operation> operations(const Checkpoint& checkpoint);

Operation linear_operation(const LinearShape& shape, std::int64_t rows);
/// Copies of `bytes` bytes of weights or keys that are more together than caches hold: in a model, other layers' come
/// in between two uses of the same.
std::int64_t copies_beyond_cache(double bytes);

std::vector<Operation> linear_operations(const Checkpoint& checkpoint);
std::vector<Operation> index_operations(const Config& config);
std::vector<Operation> selection_operations(const Config& config);
std::vector<Operation> attend_operations(const Config& config);
std::vector<Operation> row_operations(const Config& config);

}  // namespace skim::bench

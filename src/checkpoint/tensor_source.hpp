// Something that hands out tensors by name.
#pragma once

#include <string_view>
#include <vector>

#include "skim/safetensors.hpp"
#include "skim/tensor.hpp"

namespace skim {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual bool contains(std::string_view name) const = 0;
  /// dtype and shape without the bytes. The name exists.
  virtual TensorInfo info(std::string_view name) const = 0;
  /// The name exists.
  virtual Tensor load(std::string_view name) const = 0;
};

}  // namespace skim

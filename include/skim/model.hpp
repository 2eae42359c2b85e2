// A model's attention layers, ready to run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skim/checkpoint.hpp"
#include "skim/config.hpp"
#include "skim/tensor.hpp"
#include "skim/trace.hpp"

namespace skim {

class Batch;
struct Access;

struct ModelOptions {
  std::vector<int> layers = {};  ///< Empty: all backbone layers. The sources of each must be among them.
  std::string kernels = {};      ///< Name of a kernel set; empty: SKIM_KERNELS, or the best this machine runs.
  bool strict = true;            ///< Refuse attention tensors that a layer has no use for; otherwise they are ignored.
  std::function<void(int layer)> progress = {};  ///< Called before each layer is packed.
};

/// Layers packed once for one kernel set. Immutable: any number of threads may call forward, each on its own batch.
/// A copy shares the weights.
class Model {
 public:
  /// Throws Error{tensor_mismatch} listing every missing, misshapen or (if strict) unexpected tensor of these layers,
  /// Error{invalid_argument} for layers that do not exist or lack their source, Error{unavailable} for the kernel set,
  /// Error{out_of_memory}.
  explicit Model(const Checkpoint& checkpoint, const ModelOptions& options = {});

  const Config& config() const;
  const std::vector<int>& layers() const;  ///< Ascending.
  std::string_view kernels() const;        ///< Name of the kernel set in use.
  std::int64_t weight_bytes() const;       ///< Bytes held by packed weights.

  /// Attention of one layer for all tokens of a batch. x: [tokens, dim], normalized by the caller; out: [tokens, dim],
  /// may be the same memory as x, but not overlap it otherwise. Tokens lie in the order of the sequences given to
  /// KvCache::begin. Throws Error{invalid_argument} for a shape that does not fit, Error{wrong_order} naming the source
  /// layer that has not run in this batch, or if the layer has run already; Error{out_of_memory}. After an error the
  /// batch can still be dropped, or the layer tried again (with x restored, if out was the same memory).
  void forward(int layer, Batch& batch, View<const bf16, 2> x, View<bf16, 2> out, Trace* trace = nullptr) const;

  struct Impl;

 private:
  friend struct Access;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

  std::shared_ptr<const Impl> impl_;
};

}  // namespace skim

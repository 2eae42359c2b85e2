// Where weights come from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skim/config.hpp"
#include "skim/safetensors.hpp"
#include "skim/tensor.hpp"

namespace skim {

/// Where a checkpoint and its configuration disagree about an attention tensor.
struct TensorProblem {
  enum class Kind {
    missing,     ///< The layer needs it.
    mismatched,  ///< Its shape or dtype is not what the configuration asks for.
    unexpected,  ///< The layer has no use for it.
  };
  Kind kind = Kind::missing;
  std::string name;
  std::string what;  ///< One clause: what was found and what was expected.
};

/// Hidden states made from a name alone (docs/cases.md, filler/1): uniform with variance 1, bf16.
Tensor synthetic_input(std::string_view name, const std::vector<std::int64_t>& shape);

/// Configuration and tensors of a model. Opening reads headers only; tensor bytes are touched when they are asked for.
/// A copy shares everything with the original.
class Checkpoint {
 public:
  /// A directory with config.json and model.safetensors.index.json + shards, or model.safetensors; or one safetensors
  /// file with config.json beside it; or a case file (configuration in its metadata, tensors under `weights/`).
  /// Throws Error{io, bad_file, bad_config}.
  static Checkpoint open(const std::filesystem::path& path);

  /// Weights made from tensor names alone (docs/cases.md, filler/1), generated when asked for. Any other seed than 0
  /// gives other weights of the same distribution. Throws Error{bad_config}.
  static Checkpoint synthetic(const Config& config, std::uint64_t seed = 0);

  const Config& config() const;
  /// What config.json leaves out and is assumed, a line each: see parse_config. Nothing for synthetic weights and case
  /// files, which leave nothing open.
  const std::vector<std::string>& assumed() const;
  /// Every tensor there is, by name; for synthetic weights, every tensor there would be. Needs all shards, while the
  /// other functions need only those of the tensors they are asked for.
  std::vector<TensorInfo> tensors() const;
  bool contains(std::string_view name) const;
  /// dtype and shape, without touching the bytes. Throws Error{tensor_mismatch} if there is no such tensor.
  TensorInfo info(std::string_view name) const;
  /// Throws Error{tensor_mismatch} if there is no such tensor.
  Tensor tensor(std::string_view name) const;

  /// Compares the attention tensors of these layers with what the configuration asks for, by name, shape and dtype.
  std::vector<TensorProblem> problems(std::span<const int> layers) const;

  struct Impl;

 private:
  explicit Checkpoint(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace skim

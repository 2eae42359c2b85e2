// Names and shapes of the attention tensors of a layer, as released checkpoints spell them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skim/config.hpp"
#include "skim/tensor.hpp"

namespace skim {

enum class TensorKind {
  linear,       ///< `.weight`, F8_E4M3 with block scales or plain BF16.
  unquantized,  ///< `.weight`, BF16 or F32 (holding bf16 values, as a rule).
  plain,        ///< `.weight`, released as BF16; may be F8_E4M3 with block scales too.
  norm,         ///< BF16 or F32.
  bias,         ///< BF16 or F32.
  sink,         ///< F32 or BF16.
};

/// A matrix as a layer multiplies with it.
struct WeightPiece {
  std::int64_t out = 0, in = 0;
  int count = 1;  ///< Of this shape, e.g. one per head.
};

struct LayerTensor {
  std::string name;  ///< Full name, `.weight` included.
  TensorKind kind;
  std::vector<std::int64_t> shape;       ///< Matrices: [out, in].
  std::vector<WeightPiece> pieces = {};  ///< What a layer cuts the matrix into, packed as bf16; empty: used whole.
  int tokens_per_row = 1;                ///< Tokens for which the matrix is multiplied once.

  bool is_matrix() const {
    return kind == TensorKind::linear || kind == TensorKind::unquantized || kind == TensorKind::plain;
  }
};

/// Collects the tensors of a layer.
class TensorList {
 public:
  /// `prefix`: in front of every name.
  explicit TensorList(std::string prefix) : prefix_(std::move(prefix)) {}
  LayerTensor& add(std::string_view name, TensorKind kind, std::vector<std::int64_t> shape) {
    return list_.emplace_back(LayerTensor{prefix_ + std::string(name), kind, std::move(shape)});
  }
  std::vector<LayerTensor> take() && { return std::move(list_); }

 private:
  std::string prefix_;
  std::vector<LayerTensor> list_;
};

/// How fp8 weights of a model keep their scales, and what the tensor of the scales is called.
struct ScaleFormat {
  DType dtype;
  int block;                  ///< A scale belongs to block x block weights; the grid rounds up.
  std::string_view replaced;  ///< End of a weight's name that gives way to ...
  std::string_view suffix;    ///< ... this.
};
const ScaleFormat& scale_format(const Config& config);

/// Every tensor the layer needs, scales left out.
std::vector<LayerTensor> layer_tensors(const Config& config, int layer);
/// Full name of the last projection of a layer, whose dtype decides how closely outputs can agree.
std::string output_projection(const Config& config, int layer);
/// "a.b.weight" -> "a.b.scale" or "a.b.weight_scale_inv".
std::string scale_name(const Config& config, const std::string& weight_name);
/// Grid of scales of an [out, in] weight.
std::vector<std::int64_t> scale_shape(const Config& config, const std::vector<std::int64_t>& weight_shape);

}  // namespace skim

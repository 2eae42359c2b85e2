// Names and shapes of the attention tensors of a layer, as released checkpoints spell them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

struct LayerTensor {
  std::string name;  ///< Full name, `.weight` included.
  TensorKind kind;
  std::vector<std::int64_t> shape;  ///< Linear kinds: [out, in].
};

/// How fp8 weights of a model keep their scales.
struct ScaleFormat {
  DType dtype;
  int block;  ///< A scale belongs to block x block weights; the grid rounds up.
};
ScaleFormat scale_format(const Config& config);
inline constexpr int kV41Block = 32, kV32Block = 128;

/// "layers.7.attn." or, for a draft layer, "mtp.0.attn."; V3.2: "model.layers.7.self_attn.".
std::string layer_prefix(const Config& config, int layer);
/// Every tensor the layer needs, scales left out.
std::vector<LayerTensor> layer_tensors(const Config& config, int layer);
/// Full name of the last projection of a layer, whose dtype decides how closely outputs can agree.
std::string output_projection(const Config& config, int layer);
/// "a.b.weight" -> "a.b.scale"; V3.2: "a.b.weight_scale_inv".
std::string scale_name(const Config& config, const std::string& weight_name);
/// Grid of scales of an [out, in] weight.
std::vector<std::int64_t> scale_shape(const Config& config, const std::vector<std::int64_t>& weight_shape);

}  // namespace skim

// Names and shapes of the attention tensors of a layer, as released checkpoints spell them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "skim/config.hpp"

namespace skim {

enum class TensorKind {
  linear,      ///< `.weight`, F8_E4M3 with `.scale` or plain BF16.
  compressor,  ///< BF16, or F32.
  plain,       ///< `.weight`, released as BF16; may be F8_E4M3 with `.scale` too.
  norm,        ///< BF16 or F32.
  sink,        ///< F32 or BF16.
};

struct LayerTensor {
  std::string name;  ///< Full name, `.weight` included.
  TensorKind kind;
  std::vector<std::int64_t> shape;  ///< Linear kinds: [out, in].
};

/// "layers.7.attn." or, for a draft layer, "mtp.0.attn.".
std::string layer_prefix(const V41Config& config, int layer);
/// Every tensor the layer needs, scales left out.
std::vector<LayerTensor> layer_tensors(const V41Config& config, int layer);
/// "a.b.weight" -> "a.b.scale".
std::string scale_name(const std::string& weight_name);
/// Grid of scales of an [out, in] weight in 32 x 32 blocks.
std::vector<std::int64_t> scale_shape(const std::vector<std::int64_t>& weight_shape);

/// Side of a scale block.
inline constexpr int kV41Block = 32;

}  // namespace skim

#include "attention/layer_weights.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "checkpoint/tensor_names.hpp"
#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"

namespace skim {
namespace {

/// Elements of a tensor, copied: bytes in a file need not be aligned.
template <class T>
std::vector<T> elements(const Tensor& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::vector<float> floats(const Tensor& tensor) {
  if (tensor.dtype == DType::f32) return elements<float>(tensor);
  std::vector<float> values;
  for (const bf16 value : elements<bf16>(tensor)) values.push_back(to_float(value));
  return values;
}

/// float32 weights that hold bf16 values, as compressors do, are packed as such.
std::optional<std::vector<bf16>> exact_bf16(const std::vector<float>& values) {
  std::vector<bf16> narrow;
  narrow.reserve(values.size());
  for (const float value : values) {
    narrow.push_back(to_bf16(value));
    if (std::bit_cast<std::uint32_t>(to_float(narrow.back())) != std::bit_cast<std::uint32_t>(value)) return {};
  }
  return narrow;
}

/// [out, in] from codes and a 32 x 32 grid of scales, exact in bf16 unless the product underflows.
std::vector<bf16> dequantize(const Tensor& codes, const Tensor& scales) {
  const std::int64_t out = codes.shape[0], in = codes.shape[1];
  std::vector<bf16> values(static_cast<std::size_t>(out * in));
  for (std::int64_t row = 0; row < out; ++row) {
    for (std::int64_t column = 0; column < in; ++column) {
      const std::int64_t block = row / kV41Block * scales.shape[1] + column / kV41Block;
      const auto code = static_cast<std::uint8_t>(codes.bytes[static_cast<std::size_t>(row * in + column)]);
      const auto scale = static_cast<std::uint8_t>(scales.bytes[static_cast<std::size_t>(block)]);
      values[static_cast<std::size_t>(row * in + column)] = to_bf16(e4m3_to_float(code) * e8m0_to_float(scale));
    }
  }
  return values;
}

class LayerLoader {
 public:
  LayerLoader(const Checkpoint& checkpoint, int layer, const Kernels& kernels, Memory& memory)
      : checkpoint_(checkpoint),
        prefix_(layer_prefix(checkpoint.config(), layer)),
        kernels_(kernels),
        memory_(memory) {}

  std::vector<float> vector(const std::string& name) const { return floats(checkpoint_.tensor(prefix_ + name)); }

  Weight weight(const std::string& name) const {
    const Tensor tensor = checkpoint_.tensor(prefix_ + name);
    if (tensor.dtype == DType::f8_e4m3) {
      const Tensor scales = checkpoint_.tensor(scale_name(prefix_ + name));
      const WeightFormat format{WeightKind::fp8_e8m0, tensor.shape[0], tensor.shape[1], kV41Block, Fp8Scale::pow2};
      return kernels_.pack_weight(memory_, {format, tensor.bytes.data(), scales.bytes.data()});
    }
    if (tensor.dtype == DType::bf16) return pack_bf16(elements<bf16>(tensor).data(), tensor.shape[0], tensor.shape[1]);
    const std::vector<float> values = elements<float>(tensor);
    if (const auto narrow = exact_bf16(values)) return pack_bf16(narrow->data(), tensor.shape[0], tensor.shape[1]);
    return kernels_.pack_weight(
        memory_, {{.kind = WeightKind::f32, .out = tensor.shape[0], .in = tensor.shape[1]}, values.data(), nullptr});
  }

  /// Equal shares of the rows, each a matrix of its own; bf16 whatever the checkpoint holds.
  std::vector<Weight> row_groups(const std::string& name, int groups) const {
    const Tensor tensor = checkpoint_.tensor(prefix_ + name);
    const std::vector<bf16> values = tensor.dtype == DType::f8_e4m3
                                         ? dequantize(tensor, checkpoint_.tensor(scale_name(prefix_ + name)))
                                         : elements<bf16>(tensor);
    const std::int64_t rows = tensor.shape[0] / groups, in = tensor.shape[1];
    std::vector<Weight> weights;
    for (int group = 0; group < groups; ++group) {
      weights.push_back(pack_bf16(values.data() + group * rows * in, rows, in));
    }
    return weights;
  }

 private:
  Weight pack_bf16(const bf16* values, std::int64_t out, std::int64_t in) const {
    return kernels_.pack_weight(memory_, {{.kind = WeightKind::bf16, .out = out, .in = in}, values, nullptr});
  }

  const Checkpoint& checkpoint_;
  std::string prefix_;
  const Kernels& kernels_;
  Memory& memory_;
};

}  // namespace

std::int64_t LayerWeights::bytes() const {
  std::int64_t total = wq_a.bytes() + wq_b.bytes() + wkv.bytes() + wo_b.bytes();
  for (const Weight& group : wo_a) total += group.bytes();
  if (compressor) {
    total += compressor->wkv.bytes() + compressor->wk.bytes() + (compressor->wgate ? compressor->wgate->bytes() : 0);
  }
  if (indexer) total += indexer->wq_b.bytes() + indexer->weights_proj.bytes();
  return total;
}

LayerWeights load_layer(const Checkpoint& checkpoint, int layer, const Kernels& kernels, Memory& memory) {
  const LayerLoader load(checkpoint, layer, kernels, memory);
  const LayerRole role = layer_role(checkpoint.config(), layer);
  LayerWeights weights{
      .wq_a = load.weight("wq_a.weight"),
      .q_norm = load.vector("q_norm.weight"),
      .wq_b = load.weight("wq_b.weight"),
      .wkv = load.weight("wkv.weight"),
      .kv_norm = load.vector("kv_norm.weight"),
      .sink = load.vector("attn_sink"),
      .wo_a = load.row_groups("wo_a.weight", checkpoint.config().o_groups),
      .wo_b = load.weight("wo_b.weight"),
      .compressor = {},
      .indexer = {},
  };
  if (role.role == Role::full) {
    weights.compressor = CompressorWeights{
        .wkv = load.weight("compressor.wkv.weight"),
        .wgate = {},
        .norm = load.vector("compressor.norm.weight"),
        .wk = load.weight("indexer.wk.weight"),
        .k_norm = load.vector("indexer.k_norm.weight"),
    };
    if (role.ratio > 1) weights.compressor->wgate = load.weight("compressor.wgate.weight");
  }
  if (role.role == Role::full || role.role == Role::reindex) {
    weights.indexer = IndexerWeights{
        .wq_b = load.weight("indexer.wq_b.weight"),
        .weights_proj = load.weight("indexer.weights_proj.weight"),
    };
  }
  return weights;
}

}  // namespace skim

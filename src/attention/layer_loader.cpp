#include "attention/layer_loader.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <optional>

#include "checkpoint/tensor_names.hpp"
#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "models/family.hpp"

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

/// Scales of any stored type as floats.
std::vector<float> scale_values(const Tensor& scales) {
  if (scales.dtype == DType::f32) return elements<float>(scales);
  std::vector<float> values;
  for (const std::uint8_t byte : elements<std::uint8_t>(scales)) values.push_back(e8m0_to_float(byte));
  return values;
}

}  // namespace

LayerLoader::LayerLoader(const Checkpoint& checkpoint, int layer, const Kernels& kernels, Memory& memory,
                         Digest& fingerprint)
    : checkpoint_(checkpoint),
      prefix_(layer_prefix(checkpoint.config(), layer)),
      input_scale_(family_of(checkpoint.config()).shape(checkpoint.config()).input_scale),
      kernels_(kernels),
      memory_(memory),
      fingerprint_(fingerprint) {}

Tensor LayerLoader::tensor(const std::string& name) const {
  Tensor found = checkpoint_.tensor(name);
  fingerprint_.add_text(fmt::format("{} {} {}", name, dtype_name(found.dtype), found.shape_text()));
  fingerprint_.add(found.bytes);
  return found;
}

std::vector<float> LayerLoader::vector(const std::string& name) const { return floats(tensor(prefix_ + name)); }

Weight LayerLoader::weight(const std::string& name) const {
  const Tensor values = tensor(prefix_ + name);
  const std::int64_t rows = values.shape[0], columns = values.shape[1];
  if (values.dtype == DType::f8_e4m3) {
    const Tensor grid = tensor(scale_name(checkpoint_.config(), prefix_ + name));
    const WeightKind kind = grid.dtype == DType::f32 ? WeightKind::fp8_f32 : WeightKind::fp8_e8m0;
    const WeightFormat format{kind, rows, columns, scale_format(checkpoint_.config()).block, input_scale_};
    return kernels_.pack_weight(memory_, {format, values.bytes.data(), grid.bytes.data()});
  }
  if (values.dtype == DType::bf16) return pack(elements<bf16>(values).data(), rows, columns);
  const std::vector<float> wide = elements<float>(values);
  if (const auto narrow = exact_bf16(wide)) return pack(narrow->data(), rows, columns);
  return kernels_.pack_weight(memory_, {{.kind = WeightKind::f32, .out = rows, .in = columns}, wide.data(), nullptr});
}

Matrix LayerLoader::matrix(const std::string& name) const {
  const Tensor values = tensor(prefix_ + name);
  Matrix matrix{values.shape[0], values.shape[1], {}};
  if (values.dtype != DType::f8_e4m3) {
    matrix.values = elements<bf16>(values);
    return matrix;
  }
  const Tensor grid = tensor(scale_name(checkpoint_.config(), prefix_ + name));
  const std::vector<float> scale = scale_values(grid);
  const std::vector<std::uint8_t> codes = elements<std::uint8_t>(values);
  const std::int64_t block = scale_format(checkpoint_.config()).block;
  matrix.values.resize(codes.size());
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      const auto index = static_cast<std::size_t>(row * matrix.columns + column);
      const auto cell = static_cast<std::size_t>(row / block * grid.shape[1] + column / block);
      matrix.values[index] = to_bf16(e4m3_to_float(codes[index]) * scale[cell]);
    }
  }
  return matrix;
}

Weight LayerLoader::pack(const bf16* values, std::int64_t rows, std::int64_t columns) const {
  return kernels_.pack_weight(memory_, {{.kind = WeightKind::bf16, .out = rows, .in = columns}, values, nullptr});
}

std::vector<Weight> LayerLoader::row_groups(const std::string& name, int groups) const {
  const Matrix all = matrix(name);
  const std::int64_t rows = all.rows / groups;
  std::vector<Weight> weights;
  weights.reserve(static_cast<std::size_t>(groups));
  for (int group = 0; group < groups; ++group) weights.push_back(pack(all.row(group * rows), rows, all.columns));
  return weights;
}

}  // namespace skim

#include "checkpoint/synthetic.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/dtype.hpp"
#include "base/out_of_memory.hpp"
#include "checkpoint/tensor_names.hpp"
#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "models/family.hpp"
#include "skim/checkpoint.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

/// What the elements of a tensor are.
enum class Content { weight, fp8_code, e8m0_scale, pow2_scale, f32_scale, norm, bias, sink };

struct Plan {
  Content content;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::int64_t in_features = 0;  ///< Of the weight that is being made or scaled.
};

/// A tensor whose i-th element is element(i).
template <class T, class Element>
Tensor fill(DType dtype, const std::vector<std::int64_t>& shape, Element element) {
  Tensor tensor{dtype, shape, {}, nullptr};
  auto values = std::make_shared<std::vector<T>>(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] = element(static_cast<std::uint64_t>(i));
  tensor.bytes = std::as_bytes(std::span(*values));
  tensor.owner = std::move(values);
  return tensor;
}

/// Exponent of a power of two that makes codes up to 448 about `amplitude`.
int scale_exponent(double amplitude, const FillerStream& stream, std::uint64_t i) {
  return static_cast<int>(std::floor(std::log2(amplitude / 448.0))) + static_cast<int>(stream.bits(i) % 3) - 1;
}

Tensor generate(const Plan& plan, const FillerStream& stream) {
  const double amplitude = std::sqrt(3.0 / static_cast<double>(plan.in_features));
  switch (plan.content) {
    case Content::weight:
      return fill<bf16>(plan.dtype, plan.shape,
                        [&](std::uint64_t i) { return to_bf16(static_cast<float>(stream.value(i) * amplitude)); });
    case Content::fp8_code:
      return fill<std::uint8_t>(plan.dtype, plan.shape, [&](std::uint64_t i) {
        return e4m3_from_float(static_cast<float>(448.0 * stream.value(i)));
      });
    case Content::e8m0_scale:
      return fill<std::uint8_t>(plan.dtype, plan.shape, [&](std::uint64_t i) {
        return static_cast<std::uint8_t>(127 + scale_exponent(amplitude, stream, i));
      });
    case Content::pow2_scale:
      return fill<float>(plan.dtype, plan.shape,
                         [&](std::uint64_t i) { return std::ldexp(1.0f, scale_exponent(amplitude, stream, i)); });
    case Content::f32_scale:
      return fill<float>(plan.dtype, plan.shape, [&](std::uint64_t i) {
        return static_cast<float>(amplitude / 448.0 * std::exp2(stream.value(i)));
      });
    case Content::norm:
      return fill<bf16>(plan.dtype, plan.shape,
                        [&](std::uint64_t i) { return to_bf16(static_cast<float>(1.0 + 0.1 * stream.value(i))); });
    case Content::bias:
      return fill<bf16>(plan.dtype, plan.shape,
                        [&](std::uint64_t i) { return to_bf16(static_cast<float>(0.1 * stream.value(i))); });
    case Content::sink:
      return fill<float>(plan.dtype, plan.shape, [&](std::uint64_t i) { return static_cast<float>(stream.value(i)); });
  }
  return {};
}

class SyntheticSource final : public TensorSource {
 public:
  SyntheticSource(const Config& config, std::uint64_t seed)
      : config_(config), shape_(family_of(config).shape(config)), seed_(seed) {
    for (int layer = 0; layer < layer_count(config); ++layer) {
      for (const LayerTensor& tensor : layer_tensors(config, layer)) add(tensor);
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> list;
    for (const auto& [name, plan] : plans_) list.push_back(name);
    return list;
  }
  bool contains(std::string_view name) const override { return plans_.find(name) != plans_.end(); }
  TensorInfo info(std::string_view name) const override {
    const Plan& plan = plans_.find(name)->second;
    return {std::string(name), plan.dtype, plan.shape, 0,
            tensor_bytes(plan.dtype, plan.shape, name, ErrorCode::bad_config)};
  }
  Tensor load(std::string_view name) const override {
    return generate(plans_.find(name)->second, FillerStream(name, seed_));
  }

 private:
  Content scale_content() const {
    if (scale_format(config_).dtype == DType::f8_e8m0) return Content::e8m0_scale;
    return shape_.input_scale == Fp8Scale::pow2 ? Content::pow2_scale : Content::f32_scale;
  }

  void add(const LayerTensor& tensor) {
    switch (tensor.kind) {
      case TensorKind::sink:
        plans_[tensor.name] = {Content::sink, DType::f32, tensor.shape, 1};
        return;
      case TensorKind::norm:
        plans_[tensor.name] = {Content::norm, DType::bf16, tensor.shape, 1};
        return;
      case TensorKind::bias:
        plans_[tensor.name] = {Content::bias, DType::bf16, tensor.shape, 1};
        return;
      case TensorKind::linear:
        if (shape_.weight_type == WeightType::fp8) {
          plans_[tensor.name] = {Content::fp8_code, DType::f8_e4m3, tensor.shape, tensor.shape[1]};
          plans_[scale_name(config_, tensor.name)] = {scale_content(), scale_format(config_).dtype,
                                                      scale_shape(config_, tensor.shape), tensor.shape[1]};
          return;
        }
        [[fallthrough]];
      case TensorKind::unquantized:
      case TensorKind::plain:
        plans_[tensor.name] = {Content::weight, DType::bf16, tensor.shape, tensor.shape[1]};
        return;
    }
  }

  Config config_;
  ModelShape shape_;
  std::uint64_t seed_;
  std::map<std::string, Plan, std::less<>> plans_;
};

}  // namespace

FillerStream::FillerStream(std::string_view name, std::uint64_t seed)
    : start_(fnv1a(name) + seed * 0xD1342543DE82EF95u) {}

std::uint64_t FillerStream::bits(std::uint64_t element) const {
  std::uint64_t z = start_ + (element + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return z >> 40;
}

std::shared_ptr<const TensorSource> make_synthetic_source(const Config& config, std::uint64_t seed) {
  return std::make_shared<SyntheticSource>(config, seed);
}

Tensor synthetic_input(std::string_view name, const std::vector<std::int64_t>& shape) {
  return or_out_of_memory(name, [&] {
    const FillerStream stream(name, 0);
    return fill<bf16>(DType::bf16, shape,
                      [&](std::uint64_t i) { return to_bf16(static_cast<float>(stream.value(i) * std::sqrt(3.0))); });
  });
}

}  // namespace skim

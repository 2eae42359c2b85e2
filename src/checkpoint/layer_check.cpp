#include "checkpoint/layer_check.hpp"

#include <fmt/format.h>

#include <set>
#include <string>

#include "base/dtype.hpp"
#include "checkpoint/tensor_names.hpp"

namespace skim {
namespace {

std::string dtype_choices(TensorKind kind) {
  switch (kind) {
    case TensorKind::linear:
    case TensorKind::plain:
      return "F8_E4M3 or BF16";
    case TensorKind::unquantized:
    case TensorKind::norm:
    case TensorKind::bias:
    case TensorKind::sink:
      return "BF16 or F32";
  }
  return "";
}

bool may_be_fp8(TensorKind kind) { return kind == TensorKind::linear || kind == TensorKind::plain; }

bool dtype_fits(TensorKind kind, DType dtype) {
  return dtype == DType::bf16 || dtype == (may_be_fp8(kind) ? DType::f8_e4m3 : DType::f32);
}

class LayerCheck {
 public:
  LayerCheck(const Config& config, const TensorSource& source) : config_(config), source_(source) {}

  void check(int layer) {
    for (const LayerTensor& tensor : layer_tensors(config_, layer)) {
      expected_.insert(tensor.name);
      // Without its weight, or beside one of another shape, a scale is not a second problem.
      if (may_be_fp8(tensor.kind) &&
          (!source_.contains(tensor.name) || source_.info(tensor.name).dtype != DType::bf16)) {
        expected_.insert(scale_name(config_, tensor.name));
      }
      if (check_tensor(tensor.name, tensor.shape, dtype_choices(tensor.kind),
                       [&](DType dtype) { return dtype_fits(tensor.kind, dtype); }) &&
          source_.info(tensor.name).dtype == DType::f8_e4m3) {
        const DType wanted = scale_format(config_).dtype;
        check_tensor(scale_name(config_, tensor.name), scale_shape(config_, tensor.shape),
                     std::string(dtype_name(wanted)), [wanted](DType dtype) { return dtype == wanted; });
      }
    }
    layers_.insert(layer);
  }

  std::vector<TensorProblem> finish() {
    for (const std::string& name : source_.names()) {
      if (layers_.contains(layer_of_tensor(config_, name)) && !expected_.contains(name)) {
        problems_.push_back({TensorProblem::Kind::unexpected, name, "the layer has no use for it"});
      }
    }
    return std::move(problems_);
  }

 private:
  template <class Fits>
  bool check_tensor(const std::string& name, const std::vector<std::int64_t>& shape, const std::string& dtypes,
                    Fits dtype_ok) {
    if (!source_.contains(name)) {
      problems_.push_back({TensorProblem::Kind::missing, name,
                           fmt::format("missing, expected shape {} of {}", shape_text(shape), dtypes)});
      return false;
    }
    const TensorInfo info = source_.info(name);
    if (info.shape != shape) {
      problems_.push_back({TensorProblem::Kind::mismatched, name,
                           fmt::format("shape {}, expected {}", shape_text(info.shape), shape_text(shape))});
    } else if (!dtype_ok(info.dtype)) {
      problems_.push_back({TensorProblem::Kind::mismatched, name,
                           fmt::format("dtype {}, expected {}", dtype_name(info.dtype), dtypes)});
    } else {
      return true;
    }
    return false;
  }

  const Config& config_;
  const TensorSource& source_;
  std::set<int> layers_;
  std::set<std::string> expected_;
  std::vector<TensorProblem> problems_;
};

}  // namespace

std::vector<TensorProblem> check_layers(const Config& config, const TensorSource& source, std::span<const int> layers) {
  LayerCheck check(config, source);
  for (const int layer : layers) check.check(layer);
  return check.finish();
}

}  // namespace skim

// linear: every weight shape of a model, for 1, 16 and 512 rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "bench/operations.hpp"
#include "bench/random.hpp"
#include "bench/shapes.hpp"

namespace skim::bench {
namespace {

std::string_view kind_name(WeightKind kind) {
  switch (kind) {
    case WeightKind::bf16:
      return "bf16";
    case WeightKind::f32:
      return "f32";
    case WeightKind::fp8_e8m0:
      return "fp8_e8m0";
    case WeightKind::fp8_f32:
      return "fp8_f32";
  }
  return "";
}

/// A weight as a checkpoint holds it.
struct StoredWeight {
  std::vector<std::byte> values, scales;

  StoredWeight(RandomWords& random, const WeightFormat& format) {
    const auto elements = static_cast<std::size_t>(format.out * format.in);
    const auto cells = static_cast<std::size_t>(format.is_fp8() ? format.block_rows() * format.block_columns() : 0);
    values.resize(elements * (format.is_fp8() ? 1 : 2));
    scales.resize(cells * (format.kind == WeightKind::fp8_f32 ? 4 : 1));
    if (!format.is_fp8()) {
      random.fill(values, 0x80FF80FF80FF80FFu, 0x3F003F003F003F00u);
    } else {
      random.fill(values, kSmallE4m3);
      if (format.kind == WeightKind::fp8_f32) {
        random.fill(scales, 0x0080000000800000u, 0x3C0000003C000000u);
      } else {
        random.fill(scales, 0x0101010101010101u, 0x7878787878787878u);
      }
    }
  }
};

class LinearSubject final : public Subject {
 public:
  LinearSubject(const KernelSet& set, Context& context, const LinearShape& shape, std::int64_t rows)
      : kernels_(set.kernels()), context_(context) {
    RandomWords random(1);
    const StoredWeight stored(random, shape.format);
    for (std::int64_t i = 0; i < copies_beyond_cache(shape.bytes); ++i) {
      weights_.push_back(
          kernels_.pack_weight(set.memory(), {shape.format, stored.values.data(), stored.scales.data()}));
    }
    x_ = random_values(random, rows * shape.format.in);
    y_.resize(static_cast<std::size_t>(rows * shape.format.out));
    x_view_ = {x_.data(), {rows, shape.format.in}};
    y_view_ = {y_.data(), {rows, shape.format.out}};
  }

  void run() override {
    kernels_.linear(context_, x_view_, weights_[next_], y_view_);
    next_ = (next_ + 1) % weights_.size();
  }

 private:
  const Kernels& kernels_;
  Context& context_;
  std::vector<Weight> weights_;
  std::size_t next_ = 0;
  std::vector<bf16> x_, y_;
  View<const bf16, 2> x_view_;
  View<bf16, 2> y_view_;
};

/// Products: n * in * out. Bytes: codes and scales once, inputs and outputs in bf16.
Work linear_work(const LinearShape& shape, std::int64_t rows) {
  const auto n = static_cast<double>(rows);
  const auto in = static_cast<double>(shape.format.in), out = static_cast<double>(shape.format.out);
  return {.products = 2 * n * in * out, .integer_products = 0, .bytes = shape.bytes + 2 * n * (in + out)};
}

}  // namespace

std::int64_t copies_beyond_cache(double bytes) {
  return std::min<std::int64_t>(1 + 2 * cache_bytes() / std::max<std::int64_t>(1, std::llround(bytes)), 1024);
}

Operation linear_operation(const LinearShape& shape, std::int64_t rows) {
  const std::string text =
      fmt::format("{} x {} -> {} {}", rows, shape.format.in, shape.format.out, kind_name(shape.format.kind));
  return {"linear", text, linear_work(shape, rows), [shape, rows](const KernelSet& set, Context& context) {
            return std::make_unique<LinearSubject>(set, context, shape, rows);
          }};
}

std::vector<Operation> linear_operations(const Checkpoint& checkpoint) {
  std::vector<Operation> list;
  for (const int layer : layers_of_each_role(checkpoint.config())) {
    for (const LinearShape& shape : linear_shapes(checkpoint, layer)) {
      for (const std::int64_t rows : {1, 16, 512}) {
        Operation operation = linear_operation(shape, rows);
        const auto same = [&](const Operation& other) { return other.shape == operation.shape; };
        if (std::none_of(list.begin(), list.end(), same)) list.push_back(std::move(operation));
      }
    }
  }
  return list;
}

}  // namespace skim::bench

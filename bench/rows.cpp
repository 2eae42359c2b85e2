// What works on one row at a time: norms, rotations, packing. 512 tokens, whose rows lie in the caches as far as they
// fit.
#include <fmt/format.h>

#include <cmath>

#include "bench/operations.hpp"
#include "bench/random.hpp"
#include "bench/shapes.hpp"

namespace skim::bench {
namespace {

constexpr std::int64_t kTokens = 512;

/// Operands of all these operations; each uses what it needs.
struct RowOperands {
  std::vector<bf16> x, y;
  std::vector<float> floats;
  std::vector<std::byte> packed;
};
using RowCall = std::function<void(const Kernels&, Context&, RowOperands&)>;

class RowSubject final : public Subject {
 public:
  RowSubject(const KernelSet& set, Context& context, RowOperands operands, RowCall call)
      : kernels_(set.kernels()), context_(context), operands_(std::move(operands)), call_(std::move(call)) {}
  void run() override { call_(kernels_, context_, operands_); }
  std::span<const std::byte> input() const override { return std::as_bytes(std::span(operands_.x)); }

 private:
  const Kernels& kernels_;
  Context& context_;
  RowOperands operands_;
  RowCall call_;
};

Operation row_operation(std::string name, std::string shape, double bytes, std::function<RowOperands()> make,
                        RowCall call) {
  return {std::move(name),
          std::move(shape),
          {.bytes = bytes},
          [make = std::move(make), call = std::move(call)](const KernelSet& set, Context& context) {
            return std::make_unique<RowSubject>(set, context, make(), call);
          }};
}

RowOperands bf16_rows(std::int64_t elements) {
  RandomWords random(5);
  return {random_values(random, elements), {}, {}, {}};
}

/// Bytes: values read and written.
Operation rms_norm(std::int64_t width) {
  return row_operation(
      "rms_norm", fmt::format("{} x {}", kTokens, width), 4.0 * kTokens * static_cast<double>(width),
      [width] {
        RowOperands operands = bf16_rows(kTokens * width);
        operands.y.resize(operands.x.size());
        operands.floats.assign(static_cast<std::size_t>(width), 1.0f);
        return operands;
      },
      [width](const Kernels& kernels, Context& context, RowOperands& rows) {
        kernels.rms_norm(context, View<const bf16, 2>(rows.x.data(), {kTokens, width}), rows.floats.data(), 1e-6f,
                         {rows.y.data(), {kTokens, width}});
      });
}

/// Bytes: rotated elements read and written, cosines and sines read.
Operation rotate(const Shapes& shapes) {
  const std::int64_t heads = shapes.heads, width = shapes.head_width, pairs = shapes.rotated / 2;
  return row_operation(
      "rotate", fmt::format("{} x {} heads, {} of {}", kTokens, heads, shapes.rotated, width),
      kTokens * (4.0 * shapes.heads * shapes.rotated + 4.0 * shapes.rotated),
      [=] {
        RowOperands operands = bf16_rows(kTokens * heads * width);
        for (std::int64_t i = 0; i < kTokens * pairs; ++i) {
          operands.floats.push_back(std::cos(static_cast<float>(i)));
          operands.floats.push_back(std::sin(static_cast<float>(i)));
        }
        return operands;
      },
      [=](const Kernels& kernels, Context& context, RowOperands& rows) {
        Rotation rotation;
        rotation.x = {rows.x.data(), {kTokens, heads, width}};
        rotation.cos_sin = {rows.floats.data(), {kTokens, pairs, 2}};
        kernels.rotate(context, rotation);
      });
}

/// Bytes: values read and written.
Operation hadamard(std::int64_t rows, std::int64_t width) {
  return row_operation(
      "hadamard", fmt::format("{} x {}", rows, width), 4.0 * static_cast<double>(rows * width),
      [=] { return bf16_rows(rows * width); },
      [=](const Kernels& kernels, Context& context, RowOperands& operands) {
        kernels.hadamard(context, {operands.x.data(), {rows, width}});
      });
}

/// Bytes: values read, packed rows written.
Operation pack_rows(const char* what, RowLayout layout, std::int64_t rows) {
  return row_operation(
      "pack_rows", fmt::format("{} x {} {}", rows, layout.width, what),
      static_cast<double>(rows * (2 * layout.width + layout.bytes())),
      [=] {
        RowOperands operands = bf16_rows(rows * layout.width);
        operands.packed.resize(static_cast<std::size_t>(rows * layout.bytes()));
        return operands;
      },
      [=](const Kernels& kernels, Context& context, RowOperands& operands) {
        std::byte* const page = operands.packed.data();
        kernels.pack_rows(context, layout, View<const bf16, 2>(operands.x.data(), {rows, layout.width}),
                          {&page, rows, layout.bytes()}, 0);
      });
}

}  // namespace

std::vector<Operation> row_operations(const Config& config) {
  const Shapes shapes = shapes_of(config);
  std::vector<Operation> list = {rms_norm(shapes.q_lora_rank), rotate(shapes)};
  // V4.1 does not transform its index vectors.
  if (!shapes.has_integer_keys()) list.push_back(hadamard(kTokens * shapes.index_heads, shapes.key_row.width));
  if (shapes.window > 0) list.push_back(pack_rows("window rows", shapes.window_row, kTokens));
  list.push_back(pack_rows("attended rows", shapes.row, kTokens));
  list.push_back(pack_rows("index queries", shapes.key_row, kTokens * shapes.index_heads));
  return list;
}

}  // namespace skim::bench

// y = x W^T as docs/v41.md words it. The layout of a packed weight is that of the checkpoint.
#include <algorithm>
#include <cstring>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {
namespace {

std::int64_t value_bytes(WeightKind kind) {
  if (kind == WeightKind::bf16) return 2;
  return kind == WeightKind::f32 ? 4 : 1;
}

Buffer copy(Memory& memory, const void* source, std::int64_t bytes) {
  Buffer buffer(memory, bytes);
  std::memcpy(buffer.data(), source, static_cast<std::size_t>(bytes));
  return buffer;
}

float weight_scale(const Weight& weight, std::int64_t block_row, std::int64_t block_column) {
  const std::int64_t index = block_row * weight.format.block_columns() + block_column;
  return weight.format.kind == WeightKind::fp8_e8m0 ? e8m0_to_float(weight.scales.as<std::uint8_t>()[index])
                                                    : weight.scales.as<float>()[index];
}

/// Input rows quantized over groups of `block`, as fp8 linear layers want them.
struct QuantizedInput {
  View<std::uint8_t, 2> codes;  // [n, in]
  View<float, 2> scales;        // [n, groups]
};

QuantizedInput quantize_input(Context& context, View<const bf16, 2> x, const WeightFormat& format) {
  QuantizedInput input{context.arena().tensor<std::uint8_t, 2>({x.shape[0], format.in}),
                       context.arena().tensor<float, 2>({x.shape[0], format.block_columns()})};
  parallel_for(context, x.shape[0], 10 * format.in, [&](std::int64_t row, int) {
    for (std::int64_t group = 0; group < format.block_columns(); ++group) {
      const std::int64_t first = group * format.block;
      const std::int64_t count = std::min<std::int64_t>(format.block, format.in - first);
      const std::span<const bf16> values(x.row(row) + first, static_cast<std::size_t>(count));
      const float scale = fp8_group_scale(values, format.input_scale);
      fp8_group_codes(values, scale, input.codes.row(row) + first);
      input.scales(row, group) = scale;
    }
  });
  return input;
}

/// term(0) + ... + term(count - 1) in float32, in four interleaved sums over stretches of 512, then over the stretches.
/// One running sum over thousands of terms would be several times less exact than the vector units that results are
/// compared with.
template <class Term>
float sum_terms(std::int64_t count, Term term) {
  constexpr std::int64_t kStretch = 512;
  float total = 0;
  for (std::int64_t first = 0; first < count; first += kStretch) {
    float sums[4] = {0, 0, 0, 0};
    const std::int64_t last = std::min(first + kStretch, count);
    for (std::int64_t k = first; k < last; ++k) sums[k % 4] += term(k);
    total += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  return total;
}

/// Scales that are no powers of two multiply whole groups, as published.
float dot_fp8_f32(const QuantizedInput& input, std::int64_t row, const Weight& weight, std::int64_t column) {
  const WeightFormat& format = weight.format;
  const std::uint8_t* x = input.codes.row(row);
  const std::uint8_t* w = weight.values.as<std::uint8_t>() + column * format.in;
  float total = 0;
  for (std::int64_t group = 0; group < format.block_columns(); ++group) {
    const std::int64_t first = group * format.block;
    const float sum = sum_terms(std::min<std::int64_t>(format.block, format.in - first), [&](std::int64_t k) {
      return e4m3_to_float(x[first + k]) * e4m3_to_float(w[first + k]);
    });
    total += sum * (input.scales(row, group) * weight_scale(weight, column / format.block, group));
  }
  return total;
}

/// Power-of-two scales may as well multiply each term.
float dot_fp8_e8m0(const QuantizedInput& input, std::int64_t row, const Weight& weight, std::int64_t column) {
  const WeightFormat& format = weight.format;
  const std::uint8_t* x = input.codes.row(row);
  const std::uint8_t* w = weight.values.as<std::uint8_t>() + column * format.in;
  std::int64_t group = -1;
  float scale = 0;
  return sum_terms(format.in, [&](std::int64_t k) {
    if (k / format.block != group) {
      group = k / format.block;
      scale = input.scales(row, group) * weight_scale(weight, column / format.block, group);
    }
    return e4m3_to_float(x[k]) * e4m3_to_float(w[k]) * scale;
  });
}

float dot_bf16(const bf16* x, const bf16* w, std::int64_t count) {
  return sum_terms(count, [&](std::int64_t k) { return to_float(x[k]) * to_float(w[k]); });
}

float dot_f32(const bf16* x, const float* w, std::int64_t count) {
  return sum_terms(count, [&](std::int64_t k) { return to_float(x[k]) * w[k]; });
}

template <class Store>
void multiply(Context& context, View<const bf16, 2> x, const Weight& weight, Store store) {
  const Arena::Scope scope(context.arena());
  const WeightFormat& format = weight.format;
  const QuantizedInput input = format.is_fp8() ? quantize_input(context, x, format) : QuantizedInput{};
  parallel_for(context, format.out, x.shape[0] * format.in, [&](std::int64_t column, int) {
    for (std::int64_t row = 0; row < x.shape[0]; ++row) {
      float sum;
      if (format.kind == WeightKind::fp8_e8m0) {
        sum = dot_fp8_e8m0(input, row, weight, column);
      } else if (format.kind == WeightKind::fp8_f32) {
        sum = dot_fp8_f32(input, row, weight, column);
      } else if (format.kind == WeightKind::bf16) {
        sum = dot_bf16(x.row(row), weight.values.as<bf16>() + column * format.in, format.in);
      } else {
        sum = dot_f32(x.row(row), weight.values.as<float>() + column * format.in, format.in);
      }
      store(row, column, sum);
    }
  });
}

}  // namespace

Weight pack_weight(Memory& memory, const WeightSource& source) {
  const WeightFormat& format = source.format;
  Weight weight{format, copy(memory, source.values, format.out * format.in * value_bytes(format.kind)), {}};
  if (format.is_fp8()) {
    const std::int64_t scale_bytes = format.kind == WeightKind::fp8_e8m0 ? 1 : 4;
    weight.scales = copy(memory, source.scales, format.block_rows() * format.block_columns() * scale_bytes);
  }
  return weight;
}

void linear(Context& context, View<const bf16, 2> x, const Weight& weight, View<bf16, 2> y) {
  multiply(context, x, weight,
           [y](std::int64_t row, std::int64_t column, float sum) { y(row, column) = to_bf16(sum); });
}

void linear_f32(Context& context, View<const bf16, 2> x, const Weight& weight, View<float, 2> y) {
  multiply(context, x, weight, [y](std::int64_t row, std::int64_t column, float sum) { y(row, column) = sum; });
}

}  // namespace skim::reference

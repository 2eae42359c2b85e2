#include <cmath>

#include "formats/bf16.hpp"
#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {

void rms_norm(Context& context, View<const bf16, 2> x, const float* weight, float eps, View<bf16, 2> y) {
  const std::int64_t width = x.shape[1];
  parallel_for(context, x.shape[0], 4 * width, [&](std::int64_t row, int) {
    float sum = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const float value = to_float(x(row, i));
      sum += value * value;
    }
    const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(width) + eps);
    for (std::int64_t i = 0; i < width; ++i) y(row, i) = to_bf16(weight[i] * (to_float(x(row, i)) * inverse));
  });
}

void layer_norm(Context& context, View<const bf16, 2> x, const float* weight, const float* bias, float eps,
                View<bf16, 2> y) {
  const std::int64_t width = x.shape[1];
  parallel_for(context, x.shape[0], 6 * width, [&](std::int64_t row, int) {
    float sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += to_float(x(row, i));
    const float mean = sum / static_cast<float>(width);
    float squares = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const float centered = to_float(x(row, i)) - mean;
      squares += centered * centered;
    }
    const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
    for (std::int64_t i = 0; i < width; ++i) {
      y(row, i) = to_bf16((to_float(x(row, i)) - mean) * inverse * weight[i] + bias[i]);
    }
  });
}

void norm_heads(Context& context, View<bf16, 3> x, float eps) {
  const std::int64_t heads = x.shape[1], width = x.shape[2];
  parallel_for(context, x.shape[0] * heads, 4 * width, [&](std::int64_t i, int) {
    bf16* const head = &x(i / heads, i % heads, 0);
    float sum = 0;
    for (std::int64_t c = 0; c < width; ++c) sum += round_bf16(to_float(head[c]) * to_float(head[c]));
    const float shifted = round_bf16(round_bf16(sum / static_cast<float>(width)) + eps);
    const float inverse = round_bf16(1.0f / std::sqrt(shifted));
    for (std::int64_t c = 0; c < width; ++c) head[c] = to_bf16(to_float(head[c]) * inverse);
  });
}

}  // namespace skim::reference

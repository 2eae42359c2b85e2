#include <cmath>

#include "formats/bf16.hpp"
#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {

void hadamard(Context& context, View<bf16, 2> x) {
  const std::int64_t width = x.shape[1];
  const auto scale = static_cast<float>(std::pow(width, -0.5));
  context.reserve_thread_scratch(width * static_cast<std::int64_t>(sizeof(float)));
  parallel_for(context, x.shape[0], 10 * width, [&](std::int64_t row, int thread) {
    float* values = context.thread_scratch<float>(thread);
    for (std::int64_t i = 0; i < width; ++i) values[i] = to_float(x(row, i));
    for (std::int64_t half = 1; half < width; half *= 2) {
      for (std::int64_t i = 0; i < width; ++i) {
        if ((i & half) != 0) continue;
        const float a = values[i], b = values[i + half];
        values[i] = a + b;
        values[i + half] = a - b;
      }
    }
    for (std::int64_t i = 0; i < width; ++i) x(row, i) = to_bf16(values[i] * scale);
  });
}

}  // namespace skim::reference

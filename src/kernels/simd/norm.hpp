// Norms, several elements at a time.
#pragma once

#include <cmath>

#include "formats/bf16.hpp"
#include "kernels/parallel.hpp"
#include "kernels/simd/input.hpp"

namespace skim::simd {

/// Norm of one head of whole vectors.
template <class V>
void norm_head(bf16* head, std::int64_t width, float eps) {
  Floats<V> sums = spread<V>(0.0f);
  for (std::int64_t i = 0; i < width; i += V::kLanes) {
    const auto values = std::bit_cast<Floats<V>>(load_bf16_bits<V>(head + i));
    sums += round_bf16<V>(values * values);
  }
  const float shifted = skim::round_bf16(skim::round_bf16(V::sum(sums) / static_cast<float>(width)) + eps);
  const Floats<V> inverse = spread<V>(skim::round_bf16(1.0f / std::sqrt(shifted)));
  for (std::int64_t i = 0; i < width; i += V::kLanes) {
    const auto values = std::bit_cast<Floats<V>>(load_bf16_bits<V>(head + i));
    store_bf16<V>(head + i, values * inverse);
  }
}

template <class V>
void norm_heads(Context& context, View<bf16, 3> x, float eps) {
  const std::int64_t heads = x.shape[1], width = x.shape[2];
  if (width % V::kLanes != 0) return reference::norm_heads(context, x, eps);
  parallel_for(context, x.shape[0] * heads, width / 4,
               [&](std::int64_t i, int) { norm_head<V>(&x(i / heads, i % heads, 0), width, eps); });
}

}  // namespace skim::simd

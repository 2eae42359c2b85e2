// The Hadamard transform, several elements at a time, in the order and with the bits of the reference.
#pragma once

#include <cmath>
#include <utility>

#include "kernels/parallel.hpp"
#include "kernels/simd/input.hpp"

namespace skim::simd {

/// One step of the transform within a vector: a + b in the lane of a, a - b in the lane of b, `kHalf` lanes further.
template <class V, int kHalf>
Floats<V> butterfly(Floats<V> value) {
  return [&]<int... kLane>(std::integer_sequence<int, kLane...>) {
    const Floats<V> partner = __builtin_shufflevector(value, value, (kLane ^ kHalf)...);
    const Ints<V> sign = {((kLane & kHalf) != 0 ? INT32_MIN : 0)...};
    return partner + std::bit_cast<Floats<V>>(std::bit_cast<Ints<V>>(value) ^ sign);
  }
  (std::make_integer_sequence<int, V::kLanes>());
}

/// The steps within each vector.
template <class V, int kHalf = 1>
Floats<V> transform_lanes(Floats<V> value) {
  if constexpr (kHalf < V::kLanes) {
    return transform_lanes<V, 2 * kHalf>(butterfly<V, kHalf>(value));
  } else {
    return value;
  }
}

/// row[width], a power of two of at least kLanes; values: [width], scratch.
template <class V>
void transform_row(bf16* row, std::int64_t width, float scale, float* values) {
  for (std::int64_t i = 0; i < width; i += V::kLanes) {
    store<V>(values + i, transform_lanes<V>(std::bit_cast<Floats<V>>(load_bf16_bits<V>(row + i))));
  }
  for (std::int64_t half = V::kLanes; half < width; half *= 2) {
    for (std::int64_t first = 0; first < width; first += 2 * half) {
      for (std::int64_t i = first; i < first + half; i += V::kLanes) {
        const Floats<V> a = load<V>(values + i), b = load<V>(values + i + half);
        store<V>(values + i, a + b);
        store<V>(values + i + half, a - b);
      }
    }
  }
  for (std::int64_t i = 0; i < width; i += V::kLanes) store_bf16<V>(row + i, load<V>(values + i) * scale);
}

template <class V>
void hadamard(Context& context, View<bf16, 2> x) {
  const std::int64_t width = x.shape[1];
  if (width < V::kLanes) return reference::hadamard(context, x);
  const auto scale = static_cast<float>(std::pow(width, -0.5));
  context.reserve_thread_scratch(width * static_cast<std::int64_t>(sizeof(float)));
  parallel_for(context, x.shape[0], width, [&](std::int64_t row, int thread) {
    transform_row<V>(x.row(row), width, scale, context.thread_scratch<float>(thread));
  });
}

}  // namespace skim::simd

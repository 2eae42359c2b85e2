// Rotation of pairs, several pairs at a time: the bits of the reference.
#pragma once

#include <utility>

#include "kernels/parallel.hpp"
#include "kernels/simd/input.hpp"

namespace skim::simd {

/// Lanes that lie two apart in first and second, one after the other: from lane `kFirst`.
template <class V, int kFirst>
Floats<V> every_other_lane(Floats<V> first, Floats<V> second) {
  return [&]<int... kLane>(std::integer_sequence<int, kLane...>) {
    return Floats<V>(__builtin_shufflevector(first, second, (2 * kLane + kFirst)...));
  }
  (std::make_integer_sequence<int, V::kLanes>());
}

/// Cosines and sines of kLanes pairs, from [pairs, 2].
template <class V>
struct Turn {
  Floats<V> cosine, sine;

  Turn(const float* cos_sin, bool inverse) {
    const Floats<V> first = load_unaligned<V>(cos_sin), second = load_unaligned<V>(cos_sin + V::kLanes);
    cosine = every_other_lane<V, 0>(first, second);
    sine = every_other_lane<V, 1>(first, second);
    if (inverse) sine = -sine;
  }
};

/// kLanes pairs of neighbours: one pair is the two halves of an integer, the even element below.
template <class V>
void rotate_neighbours(bf16* x, const Turn<V>& turn) {
  Ints<V> both;
  std::memcpy(&both, x, sizeof(both));
  constexpr std::int32_t kUpper = -0x10000;
  const auto a = std::bit_cast<Floats<V>>(both << 16), b = std::bit_cast<Floats<V>>(both & kUpper);
  const auto re = std::bit_cast<Unsigned<V>>(round_bf16<V>(a * turn.cosine - b * turn.sine));
  const auto im = std::bit_cast<Unsigned<V>>(round_bf16<V>(a * turn.sine + b * turn.cosine));
  const Unsigned<V> turned = (re >> 16) | im;
  std::memcpy(x, &turned, sizeof(turned));
}

/// kLanes pairs whose elements are `apart`.
template <class V>
void rotate_halves(bf16* x, std::int64_t apart, const Turn<V>& turn) {
  const auto a = std::bit_cast<Floats<V>>(load_bf16_bits<V>(x)),
             b = std::bit_cast<Floats<V>>(load_bf16_bits<V>(x + apart));
  store_bf16<V>(x, a * turn.cosine - b * turn.sine);
  store_bf16<V>(x + apart, a * turn.sine + b * turn.cosine);
}

template <class V>
void rotate(Context& context, const Rotation& rotation) {
  const View<bf16, 3>& x = rotation.x;
  const std::int64_t pairs = rotation.cos_sin.shape[1];
  if (pairs % V::kLanes != 0 || rotation.cos_sin.strides[1] != 2) return reference::rotate(context, rotation);
  const bool halves = rotation.style == RotationStyle::front_halves;
  const std::int64_t first = rotation.style == RotationStyle::tail_adjacent ? x.shape[2] - 2 * pairs : 0;
  parallel_for(context, x.shape[0], x.shape[1] * pairs, [&](std::int64_t row, int) {
    for (std::int64_t pair = 0; pair < pairs; pair += V::kLanes) {
      const Turn<V> turn(&rotation.cos_sin(row, pair, 0), rotation.inverse);
      for (std::int64_t head = 0; head < x.shape[1]; ++head) {
        if (halves) {
          rotate_halves<V>(&x(row, head, first + pair), pairs, turn);
        } else {
          rotate_neighbours<V>(&x(row, head, first + 2 * pair), turn);
        }
      }
    }
  });
}

}  // namespace skim::simd

#include "formats/bf16.hpp"
#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {

void rotate(Context& context, const Rotation& rotation) {
  const View<bf16, 3>& x = rotation.x;
  const std::int64_t pairs = rotation.cos_sin.shape[1];
  const bool adjacent = rotation.style != RotationStyle::front_halves;
  const std::int64_t first = rotation.style == RotationStyle::tail_adjacent ? x.shape[2] - 2 * pairs : 0;
  const std::int64_t step = adjacent ? 2 : 1, partner = adjacent ? 1 : pairs;
  parallel_for(context, x.shape[0], 8 * x.shape[1] * pairs, [&](std::int64_t row, int) {
    for (std::int64_t head = 0; head < x.shape[1]; ++head) {
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        bf16& re = x(row, head, first + step * pair);
        bf16& im = x(row, head, first + step * pair + partner);
        const float a = to_float(re), b = to_float(im);
        const float cosine = rotation.cos_sin(row, pair, 0);
        const float sine = rotation.inverse ? -rotation.cos_sin(row, pair, 1) : rotation.cos_sin(row, pair, 1);
        re = to_bf16(a * cosine - b * sine);
        im = to_bf16(a * sine + b * cosine);
      }
    }
  });
}

}  // namespace skim::reference

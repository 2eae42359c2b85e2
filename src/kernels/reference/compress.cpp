#include <algorithm>
#include <cmath>

#include "formats/bf16.hpp"
#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {

void pool_groups(Context& context, View<const float, 3> kv, View<const float, 3> score, View<bf16, 2> latent) {
  const std::int64_t ratio = kv.shape[1], width = kv.shape[2];
  parallel_for(context, kv.shape[0], 30 * ratio * width, [&](std::int64_t group, int) {
    for (std::int64_t channel = 0; channel < width; ++channel) {
      float largest = score(group, 0, channel);
      for (std::int64_t token = 1; token < ratio; ++token) largest = std::max(largest, score(group, token, channel));
      float denominator = 0;
      for (std::int64_t token = 0; token < ratio; ++token) {
        denominator += std::exp(score(group, token, channel) - largest);
      }
      float sum = 0;
      for (std::int64_t token = 0; token < ratio; ++token) {
        sum += kv(group, token, channel) * (std::exp(score(group, token, channel) - largest) / denominator);
      }
      latent(group, channel) = to_bf16(sum);
    }
  });
}

}  // namespace skim::reference

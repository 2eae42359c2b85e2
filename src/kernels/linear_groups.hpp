// linear_groups for sets that gain nothing from seeing all groups at once.
#pragma once

#include "kernels/kernels.hpp"

namespace skim {

template <void (*linear)(Context&, View<const bf16, 2>, const Weight&, View<bf16, 2>)>
void linear_each_group(Context& context, View<const bf16, 3> x, std::span<const Weight> weights, View<bf16, 3> y) {
  for (std::size_t g = 0; g < weights.size(); ++g) {
    const auto group = static_cast<std::int64_t>(g);
    linear(context, {x.data + group * x.strides[1], {x.shape[0], x.shape[2]}, {x.strides[0], x.strides[2]}}, weights[g],
           {y.data + group * y.strides[1], {y.shape[0], y.shape[2]}, {y.strides[0], y.strides[2]}});
  }
}

}  // namespace skim

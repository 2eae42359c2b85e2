#include "kernels/amx/amx.hpp"

#include "kernels/amx/attend.hpp"
#include "kernels/amx/index.hpp"
#include "kernels/amx/linear.hpp"
#include "kernels/avx512/avx512.hpp"

namespace skim::amx {
namespace {

void linear(Context& context, View<const bf16, 2> x, const Weight& weight, View<bf16, 2> y) {
  multiply(context, simd::single(x, weight, y));
}
void linear_f32(Context& context, View<const bf16, 2> x, const Weight& weight, View<float, 2> y) {
  multiply(context, simd::single(x, weight, y));
}
void linear_groups(Context& context, View<const bf16, 3> x, std::span<const Weight> weights, View<bf16, 3> y) {
  multiply<bf16>(context, {x, weights, y});
}

}  // namespace

const Kernels& kernels() {
  static const Kernels table = [] {
    Kernels entries = avx512::kernels();
    entries.pack_weight = pack_weight;
    entries.linear = linear;
    entries.linear_f32 = linear_f32;
    entries.linear_groups = linear_groups;
    entries.index_score = index_score;
    entries.attend = attend;
    return entries;
  }();
  return table;
}

}  // namespace skim::amx

// The portable set: plain C++ arranged so that a compiler vectorizes it for any processor. Operations it does not name
// are the reference's.
#pragma once

#include "kernels/kernels.hpp"

namespace skim::portable {

const Kernels& kernels();

void linear(Context&, View<const bf16, 2> x, const Weight& weight, View<bf16, 2> y);
void linear_f32(Context&, View<const bf16, 2> x, const Weight& weight, View<float, 2> y);
void index_score(Context&, const IndexShape&, std::span<const IndexQuery>);
void attend(Context&, const AttendShape&, std::span<const AttendQuery>);

}  // namespace skim::portable

// The set for processors with AVX2, FMA and F16C: kernels/simd over vectors of eight floats.
#pragma once

#include "kernels/kernels.hpp"

namespace skim::avx2 {

const Kernels& kernels();

}  // namespace skim::avx2

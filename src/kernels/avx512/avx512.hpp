// The set for processors with AVX-512 (F, BW, DQ, VL, VBMI, VNNI): kernels/simd over vectors of sixteen floats.
#pragma once

#include "kernels/kernels.hpp"

namespace skim::avx512 {

const Kernels& kernels();

}  // namespace skim::avx512

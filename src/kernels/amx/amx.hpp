// The set for processors with AMX (BF16 and INT8) beside AVX-512. Operations and weights that tiles do not suit are the
// avx512 set's.
#pragma once

#include "kernels/kernels.hpp"

namespace skim::amx {

const Kernels& kernels();

}  // namespace skim::amx

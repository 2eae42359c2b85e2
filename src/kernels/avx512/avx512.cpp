#include "kernels/avx512/avx512.hpp"

#include "kernels/avx512/vector.hpp"
#include "kernels/simd/table.hpp"

namespace skim::avx512 {

const Kernels& kernels() {
  static const Kernels table = simd::table<Vector>();
  return table;
}

}  // namespace skim::avx512

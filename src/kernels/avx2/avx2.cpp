#include "kernels/avx2/avx2.hpp"

#include "kernels/avx2/vector.hpp"
#include "kernels/simd/table.hpp"

namespace skim::avx2 {

const Kernels& kernels() {
  static const Kernels table = simd::table<Vector>();
  return table;
}

}  // namespace skim::avx2

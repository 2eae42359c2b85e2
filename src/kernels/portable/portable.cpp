#include "kernels/portable/portable.hpp"

#include "kernels/reference/reference.hpp"

namespace skim::portable {

const Kernels& kernels() {
  static const Kernels table = [] {
    Kernels entries = reference::kernels();
    entries.linear = linear;
    entries.linear_f32 = linear_f32;
    entries.index_score = index_score;
    entries.attend = attend;
    return entries;
  }();
  return table;
}

}  // namespace skim::portable

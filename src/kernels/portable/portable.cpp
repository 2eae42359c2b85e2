#include "kernels/portable/portable.hpp"

#include "kernels/linear_groups.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::portable {

const Kernels& kernels() {
  static const Kernels table = [] {
    Kernels entries = reference::kernels();
    entries.linear = linear;
    entries.linear_f32 = linear_f32;
    entries.linear_groups = linear_each_group<linear>;
    entries.index_score = index_score;
    entries.attend = attend;
    return entries;
  }();
  return table;
}

}  // namespace skim::portable

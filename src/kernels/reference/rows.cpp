#include "kernels/parallel.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::reference {

void pack_rows(Context& context, RowLayout layout, View<const bf16, 2> x, PagedRows<std::byte> rows,
               std::int64_t first) {
  parallel_for(context, x.shape[0], 10 * layout.width,
               [&](std::int64_t i, int) { pack_row(layout, x.row(i), rows.row(first + i)); });
}

}  // namespace skim::reference

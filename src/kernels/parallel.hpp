// The only place where threads start. Work items are independent: nothing is ever summed across threads, so results do
// not depend on how many there are.
#pragma once

#include <cstdint>

#include "kernels/context.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace skim {

/// Waking threads and waiting for them takes some microseconds: as long as this many elementary operations.
inline constexpr std::int64_t kLeastParallelWork = 32'768;

/// Calls body(item, thread) for every item in [0, count), thread in [0, context.threads()). `work` is about how many
/// elementary operations an item takes; little work in all stays on the calling thread. `body` must not throw.
template <class Body>
void parallel_for([[maybe_unused]] const Context& context, std::int64_t count, [[maybe_unused]] std::int64_t work,
                  Body body) {
#ifdef _OPENMP
  if (context.threads() > 1 && count > 1 && work > kLeastParallelWork / count) {
#pragma omp parallel for num_threads(context.threads()) schedule(dynamic)
    for (std::int64_t item = 0; item < count; ++item) body(item, omp_get_thread_num());
    return;
  }
#endif
  for (std::int64_t item = 0; item < count; ++item) body(item, 0);
}

}  // namespace skim

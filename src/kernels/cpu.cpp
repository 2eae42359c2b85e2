#include "kernels/cpu.hpp"

namespace skim {

CpuFeatures cpu_features() { return 0; }

}  // namespace skim

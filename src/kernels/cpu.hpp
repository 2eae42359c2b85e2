// What this processor and operating system can run. Compiled without instruction-set flags: it must run everywhere.
#pragma once

#include <cstdint>

namespace skim {

/// Bits of KernelSet::required_features. The sets of today need none; each set to come adds the bits it needs.
using CpuFeatures = std::uint32_t;

/// Features this machine offers.
CpuFeatures cpu_features();

}  // namespace skim

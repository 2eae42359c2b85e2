// What this processor and operating system can run. Compiled without instruction-set flags: it must run everywhere.
#pragma once

#include <cstdint>
#include <string>

namespace skim {

/// Bits of KernelSet::required_features, one per instruction set that kernels are written for.
using CpuFeatures = std::uint32_t;
inline constexpr CpuFeatures kCpuAvx2 = 1;    ///< AVX2, FMA, F16C.
inline constexpr CpuFeatures kCpuAvx512 = 2;  ///< AVX-512 F, BW, DQ, VL, VBMI, VNNI.
inline constexpr CpuFeatures kCpuAmx = 4;     ///< AMX-TILE, AMX-INT8, AMX-BF16, permitted by the operating system.

/// Features this machine offers. Asks the operating system for the use of AMX tiles the first time.
CpuFeatures cpu_features();

/// Why this machine lacks `feature`, one of the bits above: "the processor has no AMX", "the operating system ...";
/// empty if it has it.
std::string why_missing(CpuFeatures feature);

}  // namespace skim

#include "kernels/registry.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "kernels/amx/amx.hpp"
#include "kernels/avx2/avx2.hpp"
#include "kernels/avx512/avx512.hpp"
#include "kernels/cpu.hpp"
#include "kernels/portable/portable.hpp"
#include "kernels/reference/reference.hpp"
#include "skim/error.hpp"
#include "skim/machine.hpp"

namespace skim {
namespace {

const std::array kSets = {
#if defined(__x86_64__)
    KernelSet{"amx", "AMX tiles of bf16 and int8, beside AVX-512", kCpuAmx, host_memory, amx::kernels},
    KernelSet{"avx512", "AVX-512 with VBMI and VNNI", kCpuAvx512, host_memory, avx512::kernels},
    KernelSet{"avx2", "AVX2, FMA and F16C", kCpuAvx2, host_memory, avx2::kernels},
#endif
    KernelSet{"portable", "plain C++ that the compiler vectorizes", 0, host_memory, portable::kernels},
    KernelSet{"reference", "scalar, with the published rounding points", 0, host_memory, reference::kernels},
};

std::string set_names() {
  std::string names;
  for (const KernelSet& set : kSets) {
    if (!names.empty()) names += ", ";
    names += set.name;
    if (!is_available(set)) names += " (not on this machine)";
  }
  return names;
}

}  // namespace

std::span<const KernelSet> kernel_sets() { return kSets; }

bool is_available(const KernelSet& set) { return (set.required_features & ~cpu_features()) == 0; }

std::vector<KernelSetInfo> kernel_set_infos() {
  std::vector<KernelSetInfo> infos;
  for (const KernelSet& set : kSets) {
    infos.push_back({std::string(set.name), std::string(set.description),
                     is_available(set) ? "" : why_missing(set.required_features & ~cpu_features())});
  }
  return infos;
}

const KernelSet& choose_kernel_set(std::string_view name) {
  if (name.empty()) {
    if (const char* forced = std::getenv("SKIM_KERNELS"); forced != nullptr && *forced != '\0') name = forced;
  }
  for (const KernelSet& set : kSets) {
    const bool wanted = name.empty() || set.name == name;
    if (wanted && is_available(set)) return set;
  }
  throw Error(ErrorCode::unavailable,
              fmt::format("kernel set '{}' is not available; there are: {}", name, set_names()));
}

}  // namespace skim

// The list of kernel sets, best first.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernels/kernels.hpp"

namespace skim {

/// All sets compiled in, best first, whether they run on this machine or not.
std::span<const KernelSet> kernel_sets();
/// True if this machine has what the set requires.
bool is_available(const KernelSet& set);
/// The set called `name`; with an empty name the one in SKIM_KERNELS, and without that the best available.
/// Throws Error{unavailable} naming the sets there are: a name is never replaced silently.
const KernelSet& choose_kernel_set(std::string_view name);

}  // namespace skim

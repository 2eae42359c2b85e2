// What this machine can run.
#pragma once

#include <string>
#include <vector>

namespace skim {

/// One implementation of the operations: a name for ModelOptions::kernels.
struct KernelSetInfo {
  std::string name;
  std::string description;
  std::string why_not;  ///< Why this machine cannot run it; empty if it can.
};

/// All kernel sets of this build, best first, whether they run on this machine or not. The first that runs is used
/// unless another is asked for, by name or by the environment variable SKIM_KERNELS.
std::vector<KernelSetInfo> kernel_set_infos();

/// Processors that this process may use: the number of threads that 0 stands for.
int available_processors();

}  // namespace skim

// Runs a test once for every kernel set that this machine can run.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/registry.hpp"

namespace skim::test {

class EverySet : public testing::TestWithParam<const KernelSet*> {
 protected:
  const Kernels& kernels() const { return GetParam()->kernels(); }
  Memory& memory() const { return GetParam()->memory(); }
};

inline std::vector<const KernelSet*> available_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet& set : kernel_sets()) {
    if (is_available(set)) sets.push_back(&set);
  }
  return sets;
}

inline std::string set_name(const testing::TestParamInfo<const KernelSet*>& info) {
  return std::string(info.param->name);
}

inline auto every_set() { return testing::ValuesIn(available_sets()); }

}  // namespace skim::test

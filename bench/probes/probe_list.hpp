// The loops that this machine can run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/probes/probes.hpp"

namespace skim::bench {

struct Probe {
  std::string_view name;
  bool integers = false;  ///< Products of small integers; otherwise of floating-point numbers.
  ArithmeticLoop run = nullptr;
};

/// Loops that this processor and operating system can run, the plainest first.
std::vector<Probe> available_probes();
/// The widest loads there are.
ReadLoop available_read();
/// Instruction sets in use by these.
std::vector<std::string> available_features();

}  // namespace skim::bench

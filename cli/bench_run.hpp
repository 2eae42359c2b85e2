// The parts of a benchmark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_ceilings.hpp"
#include "bench_report.hpp"
#include "bench_sample.hpp"
#include "kernels/registry.hpp"
#include "skim/checkpoint.hpp"

namespace skim::bench {

/// What all parts need.
struct BenchRun {
  std::vector<const KernelSet*> sets;  ///< The one that counts, and maybe one to compare it with.
  Pace pace;
  Context& context;
  Ceilings& ceilings;
  Report& report;
};

struct BenchModel {
  std::string name;  ///< As given by the user.
  Checkpoint checkpoint;
};

/// Times the operations whose titles begin with one of `wanted`; all if that is empty. Throws Error{invalid_argument}
/// for one that begins no title.
void bench_operations(const BenchRun& run, const BenchModel& model, const std::vector<std::string>& wanted);

}  // namespace skim::bench

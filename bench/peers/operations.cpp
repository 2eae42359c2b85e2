// Single operations of the released shapes under Google Benchmark, with every kernel set of this machine:
//   skim_operations --benchmark_filter='attend.*portable'
// The same operations as skim bench --ops, which also measures what the machine could do.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "bench/operations.hpp"

namespace skim::bench {
namespace {

void run(benchmark::State& state, const Operation& operation, const KernelSet& set) {
  Context context(0);
  const std::unique_ptr<Subject> subject = operation.make(set, context);
  for (auto _ : state) subject->run();
  using benchmark::Counter;
  state.counters["FLOP/s"] = Counter(operation.work.operations(), Counter::kIsIterationInvariantRate);
  state.counters["B/s"] = Counter(operation.work.bytes, Counter::kIsIterationInvariantRate);
}

void register_all() {
  for (const char* model : {"v41-flash", "v32"}) {
    for (const Operation& operation : operations(Checkpoint::synthetic(named_config(model)))) {
      for (const KernelSet& set : kernel_sets()) {
        if (!is_available(set)) continue;
        const std::string name = fmt::format("{}/{}/{}", model, operation.title(), set.name);
        benchmark::RegisterBenchmark(name.c_str(), run, operation, set)->UseRealTime();
      }
    }
  }
}

}  // namespace
}  // namespace skim::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  skim::bench::register_all();
  benchmark::RunSpecifiedBenchmarks();
}

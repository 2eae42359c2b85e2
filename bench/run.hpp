// The parts of a benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/ceilings.hpp"
#include "bench/report.hpp"
#include "bench/sample.hpp"
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

/// What came of taking turns: seconds by round, set and part, and the rates of the machine before each round.
struct Measurement {
  std::vector<std::vector<std::vector<double>>> seconds;
  std::vector<Rates> rates;
};

/// One sampler per kernel set. `input` as in Subject.
Measurement measure(const BenchRun& run, std::span<const Sampler> samplers, std::span<const std::byte> input);
/// Reports one part. `about`: what it is and what it has to do.
void report(const BenchRun& run, const Measurement& measured, std::size_t part, const Result& about);

/// Throws Error{invalid_argument} naming an entry of `wanted` with which no operation of any model begins.
void check_operations(std::span<const BenchModel> models, const std::vector<std::string>& wanted);
/// Times the operations whose titles ("attend 1 x 64 heads, ...") begin with one of `wanted`; all if that is empty.
void bench_operations(const BenchRun& run, const BenchModel& model, const std::vector<std::string>& wanted);

struct LayerOptions {
  std::vector<int> layers;
  std::vector<std::int64_t> contexts;  ///< Tokens planted before those that are run.
  bool decode = true, prefill = true;
  std::int64_t tokens = 512;  ///< Of a prefill.
};

/// Times layers behind planted contexts: decode of one token, prefill of some. Throws what Model and KvCache throw.
void bench_layers(const BenchRun& run, const BenchModel& model, const LayerOptions& options);

/// Plants the longest of the contexts and compares the resident size of this process with what weights, cache and
/// workspace should take. Before anything else allocates much.
nlohmann::ordered_json bench_memory(const BenchModel& model, const LayerOptions& options, const std::string& kernels,
                                    int threads);

}  // namespace skim::bench

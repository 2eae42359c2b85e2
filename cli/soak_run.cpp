#include "soak_run.hpp"

#include <fmt/format.h>

#include <chrono>

#include "soak_operations.hpp"

namespace skim::cli {
namespace {

constexpr std::int64_t kCheckInterval = 50;  // operations between two checks of one sequence, on average
constexpr std::int64_t kShortestCache = 100, kLongestCache = 400;  // operations

/// One operation and what must hold after it; now and then a sequence is computed again.
void step(Bench& bench) {
  ++bench.report.last_operation;
  run_any(bench);
  bench.expect_none(bench.subject->problem());
  for (const Tracked& sequence : bench.subject->sequences) {
    if (bench.random.one_in(kCheckInterval)) bench.check(sequence);
  }
}

void finish_cache(Bench& bench) {
  bench.report.kind = "last check";
  bench.say("of all sequences");
  bench.check_all();
  while (!bench.subject->sequences.empty()) bench.remove(bench.subject->any(bench.random).id);
  bench.expect_none(bench.subject->problem());
}

/// Operations on a cache until they are enough for it or all are done.
void soak_cache(Bench& bench, const SoakOptions& options, const std::function<bool()>& over) {
  bench.subject = std::make_unique<Subject>(bench.model, random_options(bench.random, bench.model, options.threads));
  ++bench.report.caches;
  const std::int64_t last = bench.report.last_operation + bench.random.between(kShortestCache, kLongestCache);
  while (bench.report.last_operation < last && !over()) {
    step(bench);
    if (options.progress) options.progress(bench.report.last_operation);
  }
  if (bench.report.difference.empty()) finish_cache(bench);
}

}  // namespace

SoakReport soak(const Model& model, const SoakOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Bench bench(model, options.seed);
  const auto over = [&] {
    if (!bench.report.difference.empty()) return true;
    return options.seconds > 0 ? seconds() >= options.seconds : bench.report.last_operation >= options.operations;
  };
  try {
    while (!over()) soak_cache(bench, options, over);
  } catch (const Error& error) {
    bench.expect(false, fmt::format("unexpected error: {}", error.what()));
  }
  bench.report.seconds = seconds();
  return bench.report;
}

}  // namespace skim::cli

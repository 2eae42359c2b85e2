#include "bench/run.hpp"

namespace skim::bench {

Measurement measure(const BenchRun& run, std::span<const Sampler> samplers, std::span<const std::byte> input) {
  Measurement measured;
  measured.seconds = take_turns(samplers, run.pace, [&] {
    measured.rates.push_back(run.ceilings.sample());
    if (!input.empty()) measured.rates.back().bytes = run.ceilings.read_rate(input);
  });
  // The warming up does not count.
  measured.rates.erase(measured.rates.begin(),
                       measured.rates.end() - static_cast<std::ptrdiff_t>(measured.seconds.size()));
  return measured;
}

void report(const BenchRun& run, const Measurement& measured, std::size_t part, const Result& about) {
  std::vector<Result> results;
  for (std::size_t set = 0; set < run.sets.size(); ++set) {
    Result result = about;
    result.set = run.sets[set]->name;
    result.threads = run.context.threads();
    result.rates = measured.rates;
    for (const auto& round : measured.seconds) result.seconds.push_back(round[set][part]);
    results.push_back(std::move(result));
  }
  run.report.add(results);
}

}  // namespace skim::bench

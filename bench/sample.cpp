#include "bench/sample.hpp"

#include <cmath>
#include <utility>

namespace skim::bench {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Sampler repeated(std::function<void()> run) {
  constexpr double shortest = 4e-3;  // seconds: long enough for the clock and for threads to wake up
  return [run = std::move(run), calls = std::int64_t{1}, first = true]() mutable {
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) run();
    double each = seconds_since(start) / static_cast<double>(calls);
    if (std::exchange(first, false) && each < shortest) {
      // Once more, as the very first call may have waited for memory.
      const auto again = Clock::now();
      run();
      each = seconds_since(again);
      calls = static_cast<std::int64_t>(std::ceil(shortest / std::max(each, 1e-7)));
    }
    return std::vector<double>{each};
  };
}

std::vector<std::vector<std::vector<double>>> take_turns(std::span<const Sampler> contenders, const Pace& pace,
                                                         const std::function<void()>& between) {
  std::vector<std::vector<std::vector<double>>> rounds;
  const auto round = [&] {
    between();
    std::vector<std::vector<double>> seconds;
    for (const Sampler& sample : contenders) seconds.push_back(sample());
    rounds.push_back(std::move(seconds));
  };
  const auto start = Clock::now();
  round();
  if (seconds_since(start) < pace.seconds) rounds.clear();
  while (static_cast<int>(rounds.size()) < pace.repeats && (rounds.size() < 2 || seconds_since(start) < pace.seconds)) {
    round();
  }
  return rounds;
}

}  // namespace skim::bench

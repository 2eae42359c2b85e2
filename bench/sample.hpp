// Timing things side by side.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace skim::bench {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The middle one, or the mean of the two in the middle; 0 of none.
double median(std::vector<double> values);

/// How long to go on.
struct Pace {
  int repeats = 9;     ///< At most.
  double seconds = 1;  ///< After that long only what makes two repeats.
};

/// What a call does, in seconds per part of it: an operation is one part, a batch through several layers has several.
using Sampler = std::function<std::vector<double>()>;

/// Seconds of calls of `run`, as many as take some milliseconds, divided by their number. How many that is comes from
/// the first use.
Sampler repeated(std::function<void()> run);

/// One time after the other of every contender: A B A B, so that whatever else the machine does meets all alike.
/// `between` is called once before each round. The first round warms up and does not count, unless it alone takes all
/// the time. Returns seconds by round, contender and part.
std::vector<std::vector<std::vector<double>>> take_turns(std::span<const Sampler> contenders, const Pace& pace,
                                                         const std::function<void()>& between);

}  // namespace skim::bench

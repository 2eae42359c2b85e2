// Draws that are the same on every machine for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

namespace skim::cli {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Any of low, low + 1, ..., high.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  std::size_t index(std::size_t size) { return static_cast<std::size_t>(engine_() % size); }
  bool one_in(std::int64_t times) { return between(1, times) == 1; }
  std::int64_t pick(std::initializer_list<std::int64_t> values) { return values.begin()[index(values.size())]; }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[index(i)]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace skim::cli

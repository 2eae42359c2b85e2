// Random inputs that a seed reproduces, and comparisons that say where two tensors differ.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "formats/bf16.hpp"
#include "formats/packed_rows.hpp"
#include "skim/tensor.hpp"

namespace skim::test {

/// SKIM_TEST_SEED replays a failure or tries other inputs.
inline std::uint64_t test_seed() {
  const char* seed = std::getenv("SKIM_TEST_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 10) : 20260801;
}

class Random {
 public:
  Random() : seed_(test_seed()), engine_(seed_) {}

  float normal() { return normal_(engine_); }
  /// In [0, limit).
  std::int64_t below(std::int64_t limit) { return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(engine_); }
  std::vector<bf16> bf16s(std::int64_t count, float size = 1) {
    std::vector<bf16> values(static_cast<std::size_t>(count));
    for (bf16& value : values) value = to_bf16(size * normal());
    return values;
  }
  std::vector<float> floats(std::int64_t count, float size = 1) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = size * normal();
    return values;
  }
  /// A row whose groups differ in size, packed into `row`.
  void packed_row(RowLayout layout, std::byte* row) {
    std::vector<bf16> values = bf16s(layout.width);
    for (int i = 0; i < layout.width; ++i) {
      values[static_cast<std::size_t>(i)] =
          to_bf16(to_float(values[static_cast<std::size_t>(i)]) *
                  std::exp2(static_cast<float>(i / row_group(layout.format) % 3 - 1)));
    }
    pack_row(layout, values.data(), row);
  }
  /// For SCOPED_TRACE.
  std::string trace() const { return "replay with SKIM_TEST_SEED=" + std::to_string(seed_); }

 private:
  std::uint64_t seed_;
  std::mt19937_64 engine_;
  std::normal_distribution<float> normal_;
};

/// A matrix whose rows are further apart than they are long; what lies between them must never change.
template <class T>
class GappedMatrix {
 public:
  GappedMatrix(std::int64_t rows, std::int64_t width, T filler)
      : filler_(filler),
        gap_(5),
        storage_(static_cast<std::size_t>(rows * (width + gap_)), filler),
        view_(storage_.data(), {rows, width}, {width + gap_, 1}) {}
  GappedMatrix(const GappedMatrix&) = delete;
  GappedMatrix& operator=(const GappedMatrix&) = delete;

  View<T, 2> view() const { return view_; }
  bool gaps_intact() const {
    for (std::int64_t row = 0; row < view_.shape[0]; ++row) {
      for (std::int64_t i = 0; i < gap_; ++i) {
        if (!(view_.row(row)[view_.shape[1] + i] == filler_)) return false;
      }
    }
    return true;
  }

 private:
  T filler_;
  std::int64_t gap_;
  std::vector<T> storage_;
  View<T, 2> view_;
};

inline float as_float(bf16 value) { return to_float(value); }
inline float as_float(float value) { return value; }

/// got [n] against want [n] with an allowance for each; reports how many differ and the first of them.
template <class T>
testing::AssertionResult close(const T* got, const std::vector<double>& want, const std::vector<double>& allowed) {
  std::size_t count = 0, first = 0;
  for (std::size_t i = want.size(); i-- > 0;) {
    const double value = as_float(got[i]);
    const bool same = std::isnan(want[i]) ? std::isnan(value) : std::abs(value - want[i]) <= allowed[i];
    if (!same && value != want[i]) ++count, first = i;
  }
  if (count == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << count << " of " << want.size() << " differ, first at " << first << ": got "
                                     << as_float(got[first]) << ", want " << want[first] << " +- " << allowed[first];
}

/// ||got - want|| / ||want||.
template <class T>
double relative_error(const T* got, const std::vector<double>& want) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (as_float(got[i]) - want[i]) * (as_float(got[i]) - want[i]);
    size += want[i] * want[i];
  }
  return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

/// Bit patterns of a[n] and b[n] are equal, and at least half the values are finite: otherwise equality means nothing.
template <class T>
testing::AssertionResult same_bits(const T* a, const T* b, std::int64_t n) {
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isfinite(as_float(a[i]))) ++finite;
    if (std::bit_cast<std::array<std::byte, sizeof(T)>>(a[i]) !=
        std::bit_cast<std::array<std::byte, sizeof(T)>>(b[i])) {
      return testing::AssertionFailure() << "element " << i << " is " << as_float(a[i]) << " and " << as_float(b[i]);
    }
  }
  if (2 * finite < n) return testing::AssertionFailure() << "only " << finite << " of " << n << " values are finite";
  return testing::AssertionSuccess();
}

inline constexpr double kFloatEpsilon = 0x1p-24;  // largest relative error of a float32 rounding
inline constexpr double kBf16Epsilon = 0x1p-8;    // of a bf16 rounding

}  // namespace skim::test

#include "verify/compare.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

namespace skim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

void ErrorSum::add(std::span<const float> got, std::span<const float> want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double expected = want[i];
    const double value = i < got.size() ? got[i] : -kInfinite;
    if (std::isfinite(expected) && std::isfinite(value)) {
      difference += (value - expected) * (value - expected);
      reference += expected * expected;
    } else if (value != expected && !(std::isnan(value) && std::isnan(expected))) {
      difference = kInfinite;
    }
  }
}

double ErrorSum::relative() const {
  if (difference == 0) return 0;
  return reference > 0 ? std::sqrt(difference / reference) : kInfinite;
}

SelectionDifference compare_selection(std::span<const float> scores, std::span<const std::int32_t> got,
                                      std::span<const std::int32_t> want) {
  if (std::adjacent_find(want.begin(), want.end(), std::greater_equal<>()) != want.end()) return {true, kInfinite};
  std::vector<std::int32_t> exchanged;
  std::set_symmetric_difference(got.begin(), got.end(), want.begin(), want.end(), std::back_inserter(exchanged));
  if (exchanged.empty()) return {};
  double largest = 0, cut_off = kInfinite;
  for (const float score : scores) {
    if (std::isfinite(score)) largest = std::max(largest, std::abs(static_cast<double>(score)));
  }
  const auto visible = static_cast<std::int64_t>(scores.size());
  for (const std::int32_t place : want) {
    if (place < 0 || place >= visible || !std::isfinite(scores[static_cast<std::size_t>(place)])) {
      return {true, kInfinite};
    }
    cut_off = std::min(cut_off, static_cast<double>(scores[static_cast<std::size_t>(place)]));
  }
  if (got.size() != want.size()) return {true, kInfinite};
  double distance = 0;
  for (const std::int32_t place : exchanged) {
    const double away = std::abs(static_cast<double>(scores[static_cast<std::size_t>(place)]) - cut_off);
    if (away > 0) distance = std::max(distance, largest > 0 ? away / largest : kInfinite);
  }
  return {true, distance};
}

std::vector<float> block_scores(std::span<const float> scores, int block_size) {
  std::vector<float> best;
  for (std::size_t first = 0; first < scores.size(); first += static_cast<std::size_t>(block_size)) {
    const std::size_t last = std::min(scores.size(), first + static_cast<std::size_t>(block_size));
    float highest = -std::numeric_limits<float>::infinity();
    for (std::size_t i = first; i < last; ++i) highest = std::fmax(highest, scores[i]);
    best.push_back(highest);
  }
  return best;
}

}  // namespace skim

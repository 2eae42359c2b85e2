#include "verify/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace skim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

SelectionDifference impossible(std::string fault) { return {true, kInfinite, std::move(fault)}; }

double largest_magnitude(std::span<const float> scores) {
  double largest = 0;
  for (const float score : scores) {
    if (std::isfinite(score)) largest = std::max(largest, std::abs(static_cast<double>(score)));
  }
  return largest;
}

}  // namespace

void ErrorSum::add(const ErrorSum& other) {
  difference += other.difference;
  reference += other.reference;
  unlike = unlike || other.unlike;
}

double ErrorSum::relative() const {
  if (unlike) return kInfinite;
  if (difference == 0) return 0;
  return reference > 0 ? std::sqrt(difference / reference) : kInfinite;
}

ErrorSum compare_row(std::span<const float> got, std::span<const float> want) {
  ErrorSum sum;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double expected = want[i];
    const double value = i < got.size() ? got[i] : -kInfinite;
    if (std::isfinite(expected) && std::isfinite(value)) {
      sum.difference += (value - expected) * (value - expected);
      sum.reference += expected * expected;
    } else if (std::isfinite(expected) != std::isfinite(value)) {
      sum.unlike = true;
    }
  }
  return sum;
}

double relative_row_error(const ErrorSum& row, double typical) {
  if (row.unlike) return kInfinite;
  if (row.difference == 0) return 0;
  return std::sqrt(row.difference) / std::max(std::sqrt(row.reference), typical / 10);
}

SelectionDifference compare_selection(const SelectionScores& scores, std::int64_t count,
                                      std::span<const std::int32_t> got, std::span<const std::int32_t> want) {
  const auto visible = static_cast<std::int64_t>(scores.allowed.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (i > 0 && want[i] == want[i - 1]) return impossible(fmt::format("holds {} twice", want[i]));
    if (want[i] < 0 || want[i] >= visible) return impossible("holds an entry that the query cannot see");
  }
  if (static_cast<std::int64_t>(want.size()) != count) {
    return impossible(fmt::format("holds {} entries, expected {}", want.size(), count));
  }
  std::vector<std::int32_t> exchanged;
  std::set_symmetric_difference(got.begin(), got.end(), want.begin(), want.end(), std::back_inserter(exchanged));
  if (exchanged.empty()) return {};
  double cut_off = kInfinite;
  for (const std::int32_t place : want) {
    const float score = scores.allowed[static_cast<std::size_t>(place)];
    if (!std::isfinite(score)) return impossible(fmt::format("holds {}, which is no candidate", place));
    cut_off = std::min(cut_off, static_cast<double>(score));
  }
  const double largest = largest_magnitude(scores.all);
  double distance = 0;
  for (const std::int32_t place : exchanged) {
    const double away = std::abs(static_cast<double>(scores.allowed[static_cast<std::size_t>(place)]) - cut_off);
    if (!(away <= 0)) distance = std::max(distance, largest > 0 && away < kInfinite ? away / largest : kInfinite);
  }
  return {true, distance, std::isfinite(distance) ? "" : "is not a selection that these scores allow"};
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

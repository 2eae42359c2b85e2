#include "attention/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace skim {
namespace {

/// Index of the pair whose wavelength completes `rotations` turns over the training context.
double corrected_pair(const RopeParameters& p, double rotations) {
  return p.width * std::log(static_cast<double>(p.original_seq_len) / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(p.theta));
}

/// Slow pairs are stretched by `factor`, fast ones kept, those between blended along a linear ramp.
void apply_yarn(const RopeParameters& p, std::vector<float>& frequencies) {
  const double low = std::max(std::floor(corrected_pair(p, p.beta_fast)), 0.0);
  const double high = std::min(std::ceil(corrected_pair(p, p.beta_slow)), static_cast<double>(p.width - 1));
  const auto span = static_cast<float>(std::max(high - low, 1e-3));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) / span, 0.0f, 1.0f);
    const float smooth = 1.0f - ramp;
    frequencies[i] = frequencies[i] / static_cast<float>(p.factor) * (1.0f - smooth) + frequencies[i] * smooth;
  }
}

}  // namespace

RopeTable::RopeTable(const RopeParameters& parameters) {
  frequencies_.resize(static_cast<std::size_t>(parameters.width / 2));
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(parameters.width);
    frequencies_[i] = 1.0f / std::pow(static_cast<float>(parameters.theta), exponent);
  }
  if (parameters.original_seq_len > 0) apply_yarn(parameters, frequencies_);
}

void RopeTable::fill(std::span<const std::int64_t> positions, View<float, 3> cos_sin) const {
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (std::size_t pair = 0; pair < frequencies_.size(); ++pair) {
      const float angle = static_cast<float>(positions[row]) * frequencies_[pair];
      cos_sin(row, pair, 0) = static_cast<float>(std::cos(static_cast<double>(angle)));
      cos_sin(row, pair, 1) = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

}  // namespace skim

#include "verify/window_rings.hpp"

#include <algorithm>

#include "formats/bf16.hpp"

namespace skim {

WindowRings::WindowRings(int sequences, std::int64_t slots, std::int64_t window, std::int64_t width)
    : slots_(slots),
      window_(window),
      width_(width),
      rings_(static_cast<std::size_t>(sequences), std::vector<bf16>(static_cast<std::size_t>(slots * width), bf16{0})) {
}

void WindowRings::update(const TraceRows& event) {
  std::vector<bf16>& ring = rings_[static_cast<std::size_t>(event.sequence)];
  for (std::int64_t i = 0; i < event.rows.shape[0]; ++i) {
    const std::int64_t slot = (event.first + i) % window_;
    std::copy_n(event.rows.row(i), width_, ring.begin() + slot * width_);
  }
}

std::vector<float> WindowRings::row(int sequence, std::int64_t slot) const {
  std::vector<float> values(static_cast<std::size_t>(width_), 0.0f);
  if (slot >= slots_) return values;
  const bf16* row = rings_[static_cast<std::size_t>(sequence)].data() + slot * width_;
  std::transform(row, row + width_, values.begin(), [](bf16 value) { return to_float(value); });
  return values;
}

}  // namespace skim

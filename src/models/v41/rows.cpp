// What a V4.1 layer keeps per sequence.
#include "models/v41/v41.hpp"

namespace skim::v41 {

LayerLayout layout(const Config& config, const LayerRole& role) {
  const V41Config& c = config_of(config);
  LayerLayout layout;
  layout.window = c.window_size;
  layout.window_row = {RowFormat::fp8_e8m0, c.head_dim};
  if (role.owns_rows()) {
    layout.ratio = role.ratio;
    layout.compressed_row = {RowFormat::fp4_e4m3, c.head_dim};
    layout.key_row = {RowFormat::fp4_e8m0, c.index_head_dim};
    layout.open_floats = 2 * static_cast<std::int64_t>(c.head_dim);
  }
  return layout;
}

}  // namespace skim::v41

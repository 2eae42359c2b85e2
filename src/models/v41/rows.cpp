// What a V4.1 layer keeps per sequence.
#include "models/v41/v41.hpp"

namespace skim::v41 {

LayerLayout layout(const Config& config, const LayerRole& role) {
  const V41Config& c = config_of(config);
  LayerLayout layout;
  layout.rings.push_back(window_ring(c.window_size, {RowFormat::fp8_e8m0, c.head_dim}));
  if (!role.owns_rows()) return layout;
  layout.tables = {{.name = kRows, .row = {RowFormat::fp4_e4m3, c.head_dim}, .ratio = role.ratio},
                   {.name = kKeys, .row = {RowFormat::fp4_e8m0, c.index_head_dim}, .ratio = role.ratio}};
  // A token waits with its part of the latent, and the score of it.
  if (role.ratio > 1) layout.rings.push_back(open_ring(role.ratio, 2 * std::int64_t{c.head_dim}));
  return layout;
}

}  // namespace skim::v41

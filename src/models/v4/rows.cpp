// What a V4 layer keeps per sequence: docs/v4.md.
#include "models/v4/v4.hpp"

namespace skim::v4 {
namespace {

/// Floats (k, then g) of tokens whose groups are unfinished; with overlap, of the group before too.
RingLayout waiting(std::string_view name, int ratio, std::int64_t width) {
  return overlaps(ratio) ? open_ring(ratio, 4 * width, ratio, name) : open_ring(ratio, 2 * width, 0, name);
}

}  // namespace

LayerLayout layout(const Config& config, const LayerRole& role) {
  const V4Config& c = config_of(config);
  const RowLayout row{RowFormat::fp8_e8m0_64, c.head_dim, c.rope_head_dim};
  LayerLayout layout;
  layout.rings.push_back(window_ring(c.window_size, row));
  if (role.owns_rows()) {
    layout.tables.push_back({.name = kRows, .row = row, .ratio = role.ratio});
    layout.rings.push_back(waiting(kOpen, role.ratio, c.head_dim));
  }
  if (role.owns_keys()) {
    layout.tables.push_back({.name = kKeys, .row = {RowFormat::fp4_e8m0, c.index_head_dim}, .ratio = role.ratio});
    layout.rings.push_back(waiting(kOpenKeys, role.ratio, c.index_head_dim));
  }
  return layout;
}

}  // namespace skim::v4

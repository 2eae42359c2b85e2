// What a V3.2 layer keeps per sequence: of each token its latent with the rotated key behind it, and its index key.
#include "models/v32/v32.hpp"

namespace skim::v32 {

LayerLayout layout(const Config& config, const LayerRole& role) {
  const V32Config& c = config_of(config);
  const Fp8Scale scale = c.ue8m0_scales ? Fp8Scale::pow2 : Fp8Scale::float32;
  const int width = c.kv_lora_rank + c.qk_rope_head_dim;
  LayerLayout layout;
  layout.tables = {{.name = kRows, .row = {RowFormat::fp8_f32, width, c.qk_rope_head_dim, scale}, .ratio = role.ratio},
                   {.name = kKeys, .row = {RowFormat::fp8_f32, c.index_head_dim, 0, scale}, .ratio = role.ratio}};
  return layout;
}

}  // namespace skim::v32

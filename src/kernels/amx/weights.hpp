// Weights as right operands of tiles: panels of two tiles of columns, 32 of k at a time. e4m3 codes stay codes and are
// widened to a tile just before it is used; 64 codes make two rows of a tile.
//
// What does not fit (float32 weights, codes or scale blocks that need special care) lies as the avx512 set lays it out.
#pragma once

#include "kernels/amx/tiles.hpp"
#include "kernels/amx/widen.hpp"
#include "kernels/avx512/vector.hpp"
#include "kernels/simd/weights.hpp"

namespace skim::amx {
namespace {

using avx512::Vector;
using simd::PanelKind;

inline constexpr int kColumns = 2 * kTile;  ///< Of a panel.
inline constexpr int kStep = 32;            ///< Inputs of one tile.
inline constexpr std::int64_t kStepElements = kStep * kColumns;
/// Bytes of a panel's two tiles for one step.
inline constexpr std::int64_t kStepBytes = 2 * kTileBytes;

/// Weights whose panels are right operands of tiles.
inline bool is_tiled(const Weight& weight) { return simd::PanelLayout<Vector>::kind_of(weight) != PanelKind::floats; }

/// Codes whose scales multiply sums of whole groups: float32 scales, which would not leave codes exact in bf16.
inline bool scales_groups(const WeightFormat& format) { return format.kind == WeightKind::fp8_f32; }

struct TileLayout {
  std::int64_t panels, steps;
  int steps_per_scale;  ///< Codes only.

  explicit TileLayout(const WeightFormat& format)
      : panels((format.out + kColumns - 1) / kColumns),
        steps((format.in + kStep - 1) / kStep),
        steps_per_scale(format.is_fp8() ? format.block / kStep : 1) {}
  std::int64_t depth() const { return steps * kStep; }
  std::int64_t scale_count() const { return (steps + steps_per_scale - 1) / steps_per_scale; }  ///< Per panel.
  std::int64_t elements() const { return panels * steps * kStepElements; }

  /// Place of element (k, column) within a step as the tiles want it: [tile][k / 2][column][k % 2].
  static std::int64_t tile_place(std::int64_t k, std::int64_t column) {
    return ((column / kTile * kTile + k / 2) * kTile + column % kTile) * 2 + k % 2;
  }
  /// The same for codes, 64 of which hold two rows (k / 2) of a tile, in eights by turns: see E4m3Table::widen.
  static std::int64_t code_place(std::int64_t k, std::int64_t column) {
    const std::int64_t place = tile_place(k, column), row = place / 32, element = place % 32;
    return row / 2 * 64 + element / 8 * 16 + row % 2 * 8 + element % 8;
  }
};

inline Weight pack_tiles(Memory& memory, const WeightSource& source) {
  const WeightFormat& format = source.format;
  const TileLayout layout(format);
  const bool codes = format.is_fp8();
  Weight weight{format, Buffer(memory, layout.elements() * (codes ? 1 : 2)), {}};
  std::fill_n(weight.values.data(), weight.values.bytes(), std::byte{0});
  const simd::SourceReader from{source};
  for (std::int64_t row = 0; row < format.out; ++row) {
    for (std::int64_t k = 0; k < format.in; ++k) {
      const std::int64_t start = (row / kColumns * layout.steps + k / kStep) * kStepElements;
      if (codes) {
        weight.values.as<std::uint8_t>()[start + TileLayout::code_place(k % kStep, row % kColumns)] = from.code(row, k);
      } else {
        weight.values.as<bf16>()[start + TileLayout::tile_place(k % kStep, row % kColumns)] = from.bf16_value(row, k);
      }
    }
  }
  if (!codes) return weight;
  weight.scales = Buffer(memory, layout.panels * layout.scale_count() * static_cast<std::int64_t>(sizeof(float)));
  for (std::int64_t i = 0; i < layout.panels * layout.scale_count(); ++i) {
    const std::int64_t panel = i / layout.scale_count(), group = i % layout.scale_count();
    weight.scales.as<float>()[i] = from.scale(panel * kColumns, group * format.block);
  }
  return weight;
}

inline Weight pack_weight(Memory& memory, const WeightSource& source) {
  const WeightFormat& format = source.format;
  const bool tiled = format.kind == WeightKind::bf16 || (format.is_fp8() && simd::widens_simply(source));
  return tiled ? pack_tiles(memory, source) : simd::pack_weight<Vector>(memory, source);
}

/// Steps [first, first + count) of a panel as right operand. codes: room for count * kStepBytes, used if need be.
inline Operand panel_operand(const Weight& weight, const TileLayout& layout, std::int64_t panel, std::int64_t first,
                             std::int64_t count, std::byte* room) {
  const std::int64_t start = (panel * layout.steps + first) * kStepElements;
  if (!weight.format.is_fp8()) return {weight.values.as<bf16>() + start, 64, kTileBytes, kStepBytes};
  E4m3Table table;
  for (std::int64_t step = 0; step < count; ++step) {
    if (!scales_groups(weight.format)) {
      const float scale =
          weight.scales.as<float>()[panel * layout.scale_count() + (first + step) / layout.steps_per_scale];
      table.set_exponent(static_cast<int>(std::bit_cast<std::uint32_t>(scale) >> 23) - 127);
    }
    const std::uint8_t* codes = weight.values.as<std::uint8_t>() + start + step * kStepElements;
    auto* to = reinterpret_cast<__m512i*>(room + step * kStepBytes);
    for (int i = 0; i < kStepElements / 64; ++i) table.widen(codes + 64 * i, to[2 * i], to[2 * i + 1]);
  }
  return {room, 64, kTileBytes, kStepBytes};
}

}  // namespace
}  // namespace skim::amx

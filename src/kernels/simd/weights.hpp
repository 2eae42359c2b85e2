// Weights in panels of two vectors of columns, k by k, two at a time: what `linear` reads is one stream per panel.
//
// e4m3 codes stay codes, one byte each, if their scale blocks are as in released models and no code or scale is
// special. Otherwise a weight becomes floats.
#pragma once

#include <algorithm>
#include <cstdint>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "kernels/kernels.hpp"
#include "kernels/simd/product.hpp"

namespace skim::simd {

/// Inputs that go into one running sum: their products are added up, then such sums. A multiple of every scale block.
inline constexpr std::int64_t kStretch = 256;

enum class PanelKind { codes, bf16, floats };

namespace {

/// Reads elements of a checkpoint weight.
struct SourceReader {
  const WeightSource& source;

  std::int64_t scale_index(std::int64_t row, std::int64_t column) const {
    const WeightFormat& format = source.format;
    return row / format.block * format.block_columns() + column / format.block;
  }
  float scale(std::int64_t row, std::int64_t column) const {
    const std::int64_t index = scale_index(row, column);
    return source.format.kind == WeightKind::fp8_e8m0
               ? e8m0_to_float(static_cast<const std::uint8_t*>(source.scales)[index])
               : static_cast<const float*>(source.scales)[index];
  }
  std::uint8_t code(std::int64_t row, std::int64_t column) const {
    return static_cast<const std::uint8_t*>(source.values)[row * source.format.in + column];
  }
  skim::bf16 bf16_value(std::int64_t row, std::int64_t column) const {
    return static_cast<const skim::bf16*>(source.values)[row * source.format.in + column];
  }
  float value(std::int64_t row, std::int64_t column) const {
    if (source.format.kind == WeightKind::f32) {
      return static_cast<const float*>(source.values)[row * source.format.in + column];
    }
    return e4m3_to_float(code(row, column)) * scale(row, column);
  }
};

/// Codes and scales that widen without special cases: none is NaN, and scales leave room for the 2^8 that belongs to
/// Vector::widen_e4m3.
bool widens_simply(const WeightSource& source) {
  const WeightFormat& format = source.format;
  if (format.block != 32 && format.block != 64 && format.block != 128) return false;
  const auto* codes = static_cast<const std::uint8_t*>(source.values);
  if (std::any_of(codes, codes + format.out * format.in, [](std::uint8_t code) { return (code & 0x7F) == 0x7F; })) {
    return false;
  }
  for (std::int64_t row = 0; row < format.out; row += format.block) {
    for (std::int64_t column = 0; column < format.in; column += format.block) {
      const float scale = SourceReader{source}.scale(row, column);
      if (!(scale > 0x1p-100f && scale < 0x1p100f)) return false;
    }
  }
  return true;
}

}  // namespace

/// How a packed weight lies in memory, from what is known of it without reading it.
template <class V>
struct PanelLayout {
  PanelKind kind;
  std::int64_t panels, depth;  ///< `depth` is format.in, rounded up to whole pairs and scale blocks.
  int block;                   ///< Inputs per scale; codes only.

  PanelLayout(const WeightFormat& format, PanelKind kind_)
      : kind(kind_),
        panels((format.out + kPanel<V> - 1) / kPanel<V>),
        depth(round_up(format.in, kind == PanelKind::codes ? format.block : 2)),
        block(format.block) {}
  explicit PanelLayout(const Weight& weight) : PanelLayout(weight.format, kind_of(weight)) {}

  static PanelKind kind_of(const Weight& weight) {
    if (weight.format.kind == WeightKind::bf16) return PanelKind::bf16;
    return weight.scales.bytes() > 0 ? PanelKind::codes : PanelKind::floats;
  }
  std::int64_t element_bytes() const { return kind == PanelKind::codes ? 1 : kind == PanelKind::bf16 ? 2 : 4; }
  std::int64_t value_bytes() const { return panels * depth * kPanel<V> * element_bytes(); }
  std::int64_t scale_count() const { return depth / block; }  ///< Per panel.
};

/// Place of element (k, column) of a panel among codes or bf16 values: [depth / 2][kPanel][2].
template <class V>
std::int64_t pair_place(std::int64_t k, std::int64_t column) {
  return (k / 2 * kPanel<V> + column) * 2 + k % 2;
}

template <class V>
void pack_panel(const PanelLayout<V>& layout, const SourceReader& from, std::int64_t panel, const Weight& weight) {
  const WeightFormat& format = weight.format;
  const std::int64_t columns = std::min<std::int64_t>(kPanel<V>, format.out - panel * kPanel<V>);
  const std::int64_t start = panel * layout.depth * kPanel<V>;
  for (std::int64_t column = 0; column < columns; ++column) {
    const std::int64_t row = panel * kPanel<V> + column;
    for (std::int64_t k = 0; k < format.in; ++k) {
      switch (layout.kind) {
        case PanelKind::codes:
          weight.values.as<std::uint8_t>()[start + pair_place<V>(k, column)] = from.code(row, k);
          break;
        case PanelKind::bf16:
          weight.values.as<skim::bf16>()[start + pair_place<V>(k, column)] = from.bf16_value(row, k);
          break;
        case PanelKind::floats:
          weight.values.as<float>()[start + k * kPanel<V> + column] = from.value(row, k);
          break;
      }
    }
  }
  if (layout.kind != PanelKind::codes) return;
  for (std::int64_t group = 0; group < layout.scale_count(); ++group) {
    weight.scales.as<float>()[panel * layout.scale_count() + group] =
        from.scale(panel * kPanel<V>, group * layout.block) * 0x1p8f;
  }
}

template <class V>
Weight pack_weight(Memory& memory, const WeightSource& source) {
  const WeightFormat& format = source.format;
  PanelKind kind = format.kind == WeightKind::bf16 ? PanelKind::bf16 : PanelKind::floats;
  if (format.is_fp8() && widens_simply(source)) kind = PanelKind::codes;
  const PanelLayout<V> layout(format, kind);
  Weight weight{format, Buffer(memory, layout.value_bytes()), {}};
  if (kind == PanelKind::codes) {
    weight.scales = Buffer(memory, layout.panels * layout.scale_count() * static_cast<std::int64_t>(sizeof(float)));
  }
  std::fill_n(weight.values.data(), weight.values.bytes(), std::byte{0});
  for (std::int64_t panel = 0; panel < layout.panels; ++panel) pack_panel(layout, {source}, panel, weight);
  return weight;
}

/// Two rows of code panels at a time, values times their scales.
template <class V, int kScales>
struct ScaledCodes {
  const std::uint8_t* codes;
  std::int64_t panel_bytes;
  Floats<V> scales[kScales];  // of each panel

  template <int kPanels>
  void pair(std::int64_t k, Floats<V> (&even)[2 * kPanels], Floats<V> (&odd)[2 * kPanels]) const {
    for (int panel = 0; panel < kPanels; ++panel) {
      V::widen_e4m3_pairs(codes + panel * panel_bytes + k * kPanel<V>, even + 2 * panel, odd + 2 * panel);
      for (int v = 2 * panel; v < 2 * panel + 2; ++v) {
        even[v] *= scales[panel];
        odd[v] *= scales[panel];
      }
    }
  }
};

/// Rows [first, first + depth) of one panel as floats [depth, kPanel].
template <class V, class Right>
void store_rows(const Right& right, std::int64_t first, std::int64_t depth, float* to) {
  for (std::int64_t k = first; k < first + depth; k += 2, to += 2 * kPanel<V>) {
    Floats<V> even[2], odd[2];
    right.template pair<1>(k, even, odd);
    for (int v = 0; v < 2; ++v) {
      store<V>(to + v * V::kLanes, even[v]);
      store<V>(to + kPanel<V> + v * V::kLanes, odd[v]);
    }
  }
}

template <class V>
struct CodeWeight {
  const std::uint8_t* codes;
  const float* scales;
  PanelLayout<V> layout;

  explicit CodeWeight(const Weight& weight)
      : codes(weight.values.as<std::uint8_t>()), scales(weight.scales.as<float>()), layout(weight) {}

  /// sums += left [.., depth] * rows [first, first + depth) of kPanels panels.
  template <int kRows, int kPanels>
  inline __attribute__((always_inline)) void add(const LeftRows& left, std::int64_t panel, std::int64_t first,
                                                 std::int64_t depth, Floats<V> (&sums)[kRows][2 * kPanels]) const {
    for (std::int64_t k = 0; k < depth; k += layout.block) {
      const ScaledCodes<V, kPanels> right = codes_at<kPanels>(panel, first, k);
      add_products<V, kRows, kPanels>(left, right, k, layout.block, sums);
    }
  }
  /// Rows [first, first + depth) of a panel as floats [depth, kPanel].
  void widen(std::int64_t panel, std::int64_t first, std::int64_t depth, float* to) const {
    for (std::int64_t k = 0; k < depth; k += layout.block) {
      store_rows<V>(codes_at<1>(panel, first, k), k, layout.block, to + k * kPanel<V>);
    }
  }

 private:
  /// Panels from row `first` on, with the scales of row first + k.
  template <int kPanels>
  ScaledCodes<V, kPanels> codes_at(std::int64_t panel, std::int64_t first, std::int64_t k) const {
    ScaledCodes<V, kPanels> right{codes + (panel * layout.depth + first) * kPanel<V>, layout.depth * kPanel<V>, {}};
    for (int p = 0; p < kPanels; ++p) {
      right.scales[p] = spread<V>(scales[(panel + p) * layout.scale_count() + (first + k) / layout.block]);
    }
    return right;
  }
};

template <class V>
struct Bf16Weight {
  const skim::bf16* values;
  PanelLayout<V> layout;

  explicit Bf16Weight(const Weight& weight) : values(weight.values.as<skim::bf16>()), layout(weight) {}

  struct Pairs {
    const skim::bf16* values;
    std::int64_t panel_stride;

    template <int kPanels>
    void pair(std::int64_t k, Floats<V> (&even)[2 * kPanels], Floats<V> (&odd)[2 * kPanels]) const {
      for (int v = 0; v < 2 * kPanels; ++v) {
        const auto bits =
            *reinterpret_cast<const Ints<V>*>(values + v / 2 * panel_stride + k * kPanel<V> + v % 2 * 2 * V::kLanes);
        even[v] = std::bit_cast<Floats<V>>(bits << 16);
        odd[v] = std::bit_cast<Floats<V>>(bits & ~0xFFFF);
      }
    }
  };

  template <int kRows, int kPanels>
  inline __attribute__((always_inline)) void add(const LeftRows& left, std::int64_t panel, std::int64_t first,
                                                 std::int64_t depth, Floats<V> (&sums)[kRows][2 * kPanels]) const {
    add_products<V, kRows, kPanels>(left, from(panel, first), 0, depth, sums);
  }
  void widen(std::int64_t panel, std::int64_t first, std::int64_t depth, float* to) const {
    store_rows<V>(from(panel, first), 0, depth, to);
  }

 private:
  Pairs from(std::int64_t panel, std::int64_t first) const {
    return {values + (panel * layout.depth + first) * kPanel<V>, layout.depth * kPanel<V>};
  }
};

template <class V>
struct FloatWeight {
  const float* values;
  PanelLayout<V> layout;

  explicit FloatWeight(const Weight& weight) : values(weight.values.as<float>()), layout(weight) {}

  template <int kRows, int kPanels>
  inline __attribute__((always_inline)) void add(const LeftRows& left, std::int64_t panel, std::int64_t first,
                                                 std::int64_t depth, Floats<V> (&sums)[kRows][2 * kPanels]) const {
    add_products<V, kRows, kPanels>(left, from(panel, first), 0, depth, sums);
  }
  void widen(std::int64_t panel, std::int64_t first, std::int64_t depth, float* to) const {
    std::copy_n(from(panel, first).data, depth * kPanel<V>, to);
  }

 private:
  FloatPanels<V> from(std::int64_t panel, std::int64_t first) const {
    return {values + (panel * layout.depth + first) * kPanel<V>, kPanel<V>, layout.depth * kPanel<V>};
  }
};

/// Calls use(CodeWeight, Bf16Weight or FloatWeight).
template <class V, class Use>
void with_weight(const Weight& weight, Use use) {
  switch (PanelLayout<V>::kind_of(weight)) {
    case PanelKind::codes:
      return use(CodeWeight<V>(weight));
    case PanelKind::bf16:
      return use(Bf16Weight<V>(weight));
    case PanelKind::floats:
      return use(FloatWeight<V>(weight));
  }
}

}  // namespace skim::simd

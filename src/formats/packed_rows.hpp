// Cache rows as they are stored: the quantized codes of one row, its group scales, and a tail kept as bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/quantize.hpp"
#include "skim/tensor.hpp"

namespace skim {

enum class RowFormat {
  fp8_e8m0,     ///< V4.1 window row: e4m3 codes, one e8m0 scale per 32. Quantizer fp8_quant(32, pow2).
  fp4_e4m3,     ///< Compressed row: e2m1 codes, one e4m3 scale per 16. Quantizer fp4_quant_e4m3.
  fp4_e8m0,     ///< V4.1 index key or query: e2m1 codes, one e8m0 scale per 32. Quantizer fp4_quant_e8m0.
  fp8_f32,      ///< V3.2 latent, index key or query: e4m3 codes, one float32 scale per 128. Quantizer fp8_quant(128).
  fp8_e8m0_64,  ///< V4 window or compressed row: e4m3 codes, one e8m0 scale per 64. Quantizer fp8_quant(64, pow2).
};

/// Elements that share one scale.
constexpr int row_group(RowFormat format) {
  switch (format) {
    case RowFormat::fp4_e4m3:
      return 16;
    case RowFormat::fp8_f32:
      return 128;
    case RowFormat::fp8_e8m0_64:
      return 64;
    case RowFormat::fp8_e8m0:
    case RowFormat::fp4_e8m0:
      break;
  }
  return 32;
}

/// Format and width of a kind of row. The quantized elements are a multiple of the format's group, except that a group
/// of fp8_f32 may be cut short by the end of the row. A row whose tail is all of it is plain bf16, whatever the format.
struct RowLayout {
  RowFormat format = RowFormat::fp8_e8m0;
  int width = 0;                           ///< Elements per row.
  int tail = 0;                            ///< Last elements that stay bf16; the others are quantized.
  Fp8Scale fp8_scale = Fp8Scale::float32;  ///< Of fp8_f32 rows: whether their scales are rounded up to powers of two.

  constexpr int quantized() const { return width - tail; }
  constexpr int groups() const { return (quantized() + row_group(format) - 1) / row_group(format); }
  constexpr std::int64_t code_bytes() const { return is_fp8() ? quantized() : quantized() / 2; }
  constexpr std::int64_t scale_bytes() const { return std::int64_t{groups()} * (format == RowFormat::fp8_f32 ? 4 : 1); }
  constexpr std::int64_t bytes() const { return code_bytes() + scale_bytes() + std::int64_t{tail} * 2; }
  constexpr bool is_fp8() const {
    return format == RowFormat::fp8_e8m0 || format == RowFormat::fp8_e8m0_64 || format == RowFormat::fp8_f32;
  }
  friend bool operator==(const RowLayout&, const RowLayout&) = default;
};

/// Quantizes x[width] into row[bytes()].
void pack_row(RowLayout layout, const bf16* x, std::byte* row);
/// Scale of one group of a packed row.
float row_scale(RowLayout layout, const std::byte* row, int group);
/// What the codes of a packed row stand for without their scales: [quantized()].
void unpack_codes(RowLayout layout, const std::byte* row, float* codes);
/// The values of a packed row [width], rounded to bf16, which only fp8_f32 rows with scales that are no powers of two
/// need (a group whose power-of-two scale was rounded up past the range of bf16 holds infinities). Packing finite
/// values again decodes to the same values, though another scale may be chosen for a group, except for fp4_e4m3 groups
/// whose scale is an e4m3 subnormal and fp8_f32 groups whose scale is no power of two.
void unpack_row(RowLayout layout, const std::byte* row, float* x);
void unpack_row(RowLayout layout, const std::byte* row, bf16* x);

}  // namespace skim

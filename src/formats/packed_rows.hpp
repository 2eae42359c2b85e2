// Cache rows as they are stored: the quantized codes of one row, followed by its group scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "skim/tensor.hpp"

namespace skim {

enum class RowFormat {
  fp8_e8m0,  ///< Window row: e4m3 codes, one e8m0 scale per 32. Quantizer fp8_quant(32, pow2).
  fp4_e4m3,  ///< Compressed row: e2m1 codes, one e4m3 scale per 16. Quantizer fp4_quant_e4m3.
  fp4_e8m0,  ///< Index key or query: e2m1 codes, one e8m0 scale per 32. Quantizer fp4_quant_e8m0.
};

/// Elements that share one scale.
constexpr int row_group(RowFormat format) { return format == RowFormat::fp4_e4m3 ? 16 : 32; }

/// Format and width of a kind of row. `width` is a multiple of the format's group.
struct RowLayout {
  RowFormat format = RowFormat::fp8_e8m0;
  int width = 0;  ///< Elements per row.

  constexpr std::int64_t code_bytes() const { return format == RowFormat::fp8_e8m0 ? width : width / 2; }
  constexpr std::int64_t bytes() const { return code_bytes() + width / row_group(format); }
};

/// Quantizes x[width] into row[bytes()].
void pack_row(RowLayout layout, const bf16* x, std::byte* row);
/// The values of a packed row, exact in bf16 (a group whose power-of-two scale was rounded up past the range of bf16
/// holds infinities). Packing finite values again decodes to the same values, though another scale may be chosen for a
/// group, except for fp4_e4m3 groups whose scale is an e4m3 subnormal.
void unpack_row(RowLayout layout, const std::byte* row, float* x);
void unpack_row(RowLayout layout, const std::byte* row, bf16* x);

}  // namespace skim

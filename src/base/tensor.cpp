#include "skim/tensor.hpp"

#include <fmt/format.h>

#include <array>

#include "base/dtype.hpp"

namespace skim {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int bits;
};

constexpr std::array<DTypeRow, 20> kDTypes = {{
    {DType::boolean, "BOOL", 8},    {DType::f4, "F4", 4},           {DType::f6_e2m3, "F6_E2M3", 6},
    {DType::f6_e3m2, "F6_E3M2", 6}, {DType::u8, "U8", 8},           {DType::i8, "I8", 8},
    {DType::f8_e5m2, "F8_E5M2", 8}, {DType::f8_e4m3, "F8_E4M3", 8}, {DType::f8_e8m0, "F8_E8M0", 8},
    {DType::i16, "I16", 16},        {DType::u16, "U16", 16},        {DType::f16, "F16", 16},
    {DType::bf16, "BF16", 16},      {DType::i32, "I32", 32},        {DType::u32, "U32", 32},
    {DType::f32, "F32", 32},        {DType::c64, "C64", 64},        {DType::f64, "F64", 64},
    {DType::i64, "I64", 64},        {DType::u64, "U64", 64},
}};

const DTypeRow& row_of(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row;
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("dtype {} does not exist", static_cast<int>(dtype)));
}

/// `scale` times every dimension other than 0; nothing on overflow or a negative dimension.
std::optional<std::int64_t> product_of_nonzero(std::span<const std::int64_t> shape, std::int64_t scale) {
  std::int64_t product = scale;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size > 0 && __builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return product;
}

bool has_zero(std::span<const std::int64_t> shape) {
  for (const std::int64_t size : shape) {
    if (size == 0) return true;
  }
  return false;
}

}  // namespace

std::string_view dtype_name(DType dtype) { return row_of(dtype).name; }

int dtype_bits(DType dtype) { return row_of(dtype).bits; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const DTypeRow& row : kDTypes) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  constexpr std::size_t kMost = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    if (i == kMost) {
      text += fmt::format("... {} dimensions", shape.size());
      break;
    }
    text += fmt::format("{}", shape[i]);
  }
  return text + "]";
}

std::int64_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape, std::string_view name, ErrorCode code) {
  const std::optional<std::int64_t> product = product_of_nonzero(shape, dtype_bits(dtype));
  if (!product) {
    throw Error(code, fmt::format("{}: shape {} of {} has a negative dimension or more than 2^63 - 1 bits", name,
                                  shape_text(shape), dtype_name(dtype)));
  }
  const std::int64_t bits = has_zero(shape) ? 0 : *product;
  if (bits % 8 != 0) {
    throw Error(code, fmt::format("{}: shape {} of {} takes {} bits, expected a multiple of 8", name, shape_text(shape),
                                  dtype_name(dtype), bits));
  }
  return bits / 8;
}

std::int64_t Tensor::elements() const {
  const std::optional<std::int64_t> product = product_of_nonzero(shape, 1);
  if (!product) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("shape {} has a negative dimension or more than 2^63 - 1 elements", shape_text()));
  }
  return has_zero(shape) ? 0 : *product;
}

std::string Tensor::shape_text() const { return skim::shape_text(shape); }

}  // namespace skim

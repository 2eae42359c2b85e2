// Names of element types, and sizes of tensors computed without overflow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "skim/error.hpp"
#include "skim/tensor.hpp"

namespace skim {

/// Spellings of the safetensors crate (0.7), e.g. "F8_E8M0". Nothing for any other text.
std::optional<DType> dtype_from_name(std::string_view name);

/// All spellings, separated by ", ".
std::string dtype_names();

/// e.g. "[96, 64]"; long shapes are cut off.
std::string shape_text(std::span<const std::int64_t> shape);

/// Bytes of a row-major tensor. Throws Error(code) starting with `name` if a dimension is negative, the product of the
/// dimensions other than 0 and the bits of an element exceeds 63 bits (so that products of some of them, such as
/// strides, do not overflow either), or the bits do not fill whole bytes.
std::int64_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape, std::string_view name, ErrorCode code);

}  // namespace skim

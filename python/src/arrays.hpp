// Arrays of other libraries as views, without copies, and tensors as numpy arrays.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string_view>

#include "skim/tensor.hpp"

namespace skim::python {

/// Rows of bfloat16 in an array that is kept alive.
struct Rows {
  nanobind::ndarray<nanobind::ro> array;
  View<bf16, 2> view;
};

enum class Access { read, write };

/// A two-dimensional array on the CPU of bfloat16 (torch, ml_dtypes) or of its bits as uint16. Throws
/// Error{invalid_argument} naming what is wrong with it, TypeError for what is no array at all. Extents and strides are
/// left to the library.
Rows import_rows(nanobind::handle array, std::string_view name, Access access);

/// A new array of the same extents: torch for torch, otherwise numpy, bfloat16 if `array` knows it.
nanobind::object empty_like(nanobind::handle array, const View<bf16, 2>& view);

/// A read-only numpy array that keeps the tensor alive. bfloat16 as uint16, 8-bit floats as uint8, smaller ones as
/// bytes in one dimension.
nanobind::object to_numpy(const Tensor& tensor);

}  // namespace skim::python

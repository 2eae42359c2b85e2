#include "arrays.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <iterator>
#include <string>

#include "skim/error.hpp"

namespace nb = nanobind;

namespace skim::python {
namespace {

/// By DType. None for elements smaller than a byte; bits for what numpy has no type for.
constexpr const char* kNumpyTypes[] = {"bool",   nullptr,   nullptr,     nullptr,   "uint8",   "int8",   "uint8",
                                       "uint8",  "uint8",   "int16",     "uint16",  "float16", "uint16", "int32",
                                       "uint32", "float32", "complex64", "float64", "int64",   "uint64"};
static_assert(std::size(kNumpyTypes) == static_cast<std::size_t>(DType::u64) + 1);

const nb::module_& numpy() {
  static const auto& module = *new nb::module_(nb::module_::import_("numpy"));  // outlives the interpreter
  return module;
}

bool is_numpy(nb::handle array) {
  static const nb::handle type = nb::object(numpy().attr("ndarray")).release();
  return PyObject_IsInstance(array.ptr(), type.ptr()) == 1;
}

std::string type_text(nb::handle object) { return nb::type_name(object.type()).c_str(); }

[[noreturn]] void refuse(std::string_view name, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{} {}", name, problem));
}

/// ml_dtypes' bfloat16 is nothing that DLPack or the buffer protocol of numpy can tell: its bits are.
nb::object exportable(nb::handle array) {
  if (is_numpy(array) && nb::cast<std::string>(array.attr("dtype").attr("char")) == "E") {
    return array.attr("view")("uint16");
  }
  return nb::borrow(array);
}

std::string dtype_text(nb::dlpack::dtype type) {
  constexpr const char* kCodes[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  return type.code < std::size(kCodes) ? fmt::format("{}{}", kCodes[type.code], type.bits) : "of another kind";
}

template <class Array>
bool try_import(nb::handle array, nb::ndarray<nb::ro>& result) {
  Array imported;
  if (!nb::try_cast(array, imported, false)) return false;
  result = nb::ndarray<nb::ro>(imported);
  return true;
}

[[noreturn]] void refuse_import(nb::handle array, std::string_view name) {
  if (!nb::hasattr(array, "__dlpack__") && PyObject_CheckBuffer(array.ptr()) == 0) {
    const std::string problem = fmt::format("{} is of type {}, expected an array", name, type_text(array));
    throw nb::type_error(problem.c_str());
  }
  const nb::object dtype = nb::getattr(array, "dtype", nb::str("unknown"));
  refuse(name, fmt::format("is a {} of dtype {} whose memory cannot be had by DLPack or as a buffer, expected bfloat16 "
                           "or its bits as uint16 in memory of the CPU",
                           type_text(array), nb::str(dtype).c_str()));
}

nb::ndarray<nb::ro> import_any(nb::handle array, std::string_view name, Access access) {
  const nb::object source = exportable(array);
  nb::ndarray<nb::ro> imported;
  if (access == Access::read) {
    if (!try_import<nb::ndarray<nb::ro>>(source, imported)) refuse_import(array, name);
  } else if (!try_import<nb::ndarray<>>(source, imported)) {
    if (try_import<nb::ndarray<nb::ro>>(source, imported)) refuse(name, "is read-only");
    refuse_import(array, name);
  }
  return imported;
}

}  // namespace

Rows import_rows(nb::handle array, std::string_view name, Access access) {
  Rows rows{import_any(array, name, access), {}};
  const nb::ndarray<nb::ro>& imported = rows.array;
  if (imported.device_type() != nb::device::cpu::value) {
    refuse(name, fmt::format("is in memory of device type {} (as DLPack numbers them), expected the CPU",
                             imported.device_type()));
  }
  const nb::dlpack::dtype type = imported.dtype();
  const bool bits = type == nb::dtype<std::uint16_t>();
  const bool bfloat = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) && type.bits == 16;
  if ((!bits && !bfloat) || type.lanes != 1) {
    refuse(name, fmt::format("is {}, expected bfloat16 or its bits as uint16 (skim.to_bf16 converts float32)",
                             dtype_text(type)));
  }
  if (imported.ndim() != 2) refuse(name, fmt::format("has {} axes, expected 2 (tokens, dim)", imported.ndim()));
  auto* data = static_cast<bf16*>(const_cast<void*>(imported.data()));
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(bf16) != 0) refuse(name, "is at an odd address");
  rows.view = {data,
               {static_cast<std::int64_t>(imported.shape(0)), static_cast<std::int64_t>(imported.shape(1))},
               {imported.stride(0), imported.stride(1)}};
  return rows;
}

nb::object empty_like(nb::handle array, const View<bf16, 2>& view) {
  const nb::tuple shape = nb::make_tuple(view.shape[0], view.shape[1]);
  if (is_numpy(array)) return numpy().attr("empty")(shape, array.attr("dtype"));
  if (nb::hasattr(array, "new_empty")) return array.attr("new_empty")(shape);
  return numpy().attr("empty")(shape, "uint16");
}

nb::object to_numpy(const Tensor& tensor) {
  const char* type = kNumpyTypes[static_cast<std::size_t>(tensor.dtype)];
  auto* kept = new Tensor(tensor);
  const nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<Tensor*>(pointer); });
  const nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> bytes(kept->bytes.data(), {kept->bytes.size()}, owner);
  const nb::object array = nb::cast(bytes);
  return type == nullptr ? array : array.attr("view")(type).attr("reshape")(nb::cast(tensor.shape));
}

}  // namespace skim::python

#include <cstring>

#include "module.hpp"
#include "skim/error.hpp"

namespace nb = nanobind;

namespace skim::python {
namespace {

const char* exception_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::bad_file:
    case ErrorCode::bad_config:
    case ErrorCode::tensor_mismatch:
      return "SkimValueError";
    case ErrorCode::out_of_memory:
      return "SkimMemoryError";
    case ErrorCode::wrong_order:
    case ErrorCode::limit_exceeded:
    case ErrorCode::io:
    case ErrorCode::unavailable:
    case ErrorCode::cancelled:
      break;
  }
  return "SkimRuntimeError";
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const char* text = error.what();  // may quote a path that is no UTF-8
    const auto message = nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace"));
    const nb::object type = nb::module_::import_("skim.errors").attr(exception_name(error.code()));
    PyErr_SetObject(type.ptr(), type(message, error.code()).ptr());
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::enum_<ErrorCode>(module, "ErrorCode", nb::is_arithmetic(),
                       "What kind of thing went wrong; the same numbers in C.")
      .value("INVALID_ARGUMENT", ErrorCode::invalid_argument)
      .value("BAD_FILE", ErrorCode::bad_file)
      .value("BAD_CONFIG", ErrorCode::bad_config)
      .value("TENSOR_MISMATCH", ErrorCode::tensor_mismatch)
      .value("WRONG_ORDER", ErrorCode::wrong_order)
      .value("LIMIT_EXCEEDED", ErrorCode::limit_exceeded)
      .value("OUT_OF_MEMORY", ErrorCode::out_of_memory)
      .value("IO", ErrorCode::io)
      .value("UNAVAILABLE", ErrorCode::unavailable)
      .value("CANCELLED", ErrorCode::cancelled);
  nb::register_exception_translator(translate);
}

}  // namespace skim::python

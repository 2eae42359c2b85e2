// The parts that the extension module is put together from.
#pragma once

#include <nanobind/nanobind.h>

namespace skim::python {

void bind_errors(nanobind::module_& module);
void bind_config(nanobind::module_& module);
void bind_checkpoint(nanobind::module_& module);
void bind_cache(nanobind::module_& module);
void bind_verify(nanobind::module_& module);

}  // namespace skim::python

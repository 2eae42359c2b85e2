#include "module.hpp"

#include "calls.hpp"

NB_MODULE(_skim, module) {
  module.doc() = "DeepSeek sparse attention on CPUs: the C++ library.";
  module.attr("__version__") = SKIM_VERSION;
  skim::python::watch_forks();
  skim::python::bind_errors(module);
  skim::python::bind_config(module);
  skim::python::bind_checkpoint(module);
  skim::python::bind_cache(module);
  skim::python::bind_verify(module);
}

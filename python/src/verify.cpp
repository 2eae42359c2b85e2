// Replaying recordings.
#include "skim/verify.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "calls.hpp"
#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace skim::python {
namespace {

VerifyReport verify_file(const std::filesystem::path& path, const std::string& kernels, std::optional<double> tolerance,
                         std::optional<Checkpoint> weights, int threads) {
  const VerifyOptions options{
      .kernels = kernels, .tolerance = tolerance, .weights = std::move(weights), .threads = threads, .progress = {}};
  VerifyReport report;
  on_threads([&] { report = verify(path, options); });
  return report;
}

}  // namespace

void bind_verify(nb::module_& module) {
  nb::class_<VerifyKind>(module, "VerifyKind", "Result for one kind of tensor.")
      .def_ro("name", &VerifyKind::name)
      .def_ro("compared", &VerifyKind::compared, "Tensors (or rows of a selection) compared.")
      .def_ro("worst", &VerifyKind::worst, "Largest relative error.")
      .def_ro("allowed", &VerifyKind::allowed)
      .def_ro("where", &VerifyKind::where, "Call and layer of the worst.")
      .def_ro("exchanged_rows", &VerifyKind::exchanged_rows, "Of selections: rows that differ from the recording.")
      .def_ro("passed", &VerifyKind::passed);
  nb::class_<VerifyReport>(module, "VerifyReport", "Result of verify. str() gives the table that `skim verify` prints.")
      .def_ro("file", &VerifyReport::file)
      .def_ro("model", &VerifyReport::model)
      .def_ro("kernels", &VerifyReport::kernels)
      .def_ro("kinds", &VerifyReport::kinds, "In order of computation.")
      .def_ro("ignored", &VerifyReport::ignored, "Tensors of the file that belong to no call, layer or known name.")
      .def_ro("first_failure", &VerifyReport::first_failure, "Call, layer, tensor and how far off; '' if all holds.")
      .def_prop_ro("passed", &VerifyReport::passed)
      .def("__bool__", &VerifyReport::passed)
      .def("__str__", &report_text);
  module.def("verify", &verify_file, "path"_a, nb::kw_only(), "kernels"_a = "", "tolerance"_a = nb::none(),
             "weights"_a = nb::none(), "threads"_a = 0,
             "Replays a case file (docs/cases.md) and judges every tensor in it.\n\n"
             "weights: a Checkpoint to use instead of the weights in the file. threads: 0 is one per processor.");
}

}  // namespace skim::python

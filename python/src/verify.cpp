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
  nb::class_<VerifyPlace>(module, "VerifyPlace", "A place in a recording; -1 where it does not apply.")
      .def_ro("call", &VerifyPlace::call)
      .def_ro("layer", &VerifyPlace::layer)
      .def_ro("sequence", &VerifyPlace::sequence)
      .def_ro("row", &VerifyPlace::row, "Token of the call, group that it closes, or slot of the window ring.")
      .def_ro("head", &VerifyPlace::head)
      .def("__repr__", [](const VerifyPlace& place) { return "<" + place.text() + ">"; })
      .def("__str__", &VerifyPlace::text);
  nb::class_<VerifyKind>(module, "VerifyKind", "Result for one kind of tensor, of the file or of one layer.")
      .def_ro("name", &VerifyKind::name)
      .def_ro("layer", &VerifyKind::layer, "-1: all layers.")
      .def_ro("compared", &VerifyKind::compared, "Tensors (or rows of a selection) compared.")
      .def_ro("worst", &VerifyKind::worst, "Largest relative error.")
      .def_ro("allowed", &VerifyKind::allowed)
      .def_ro("where", &VerifyKind::where, "Call and layer of the worst.")
      .def_ro("worst_row", &VerifyKind::worst_row, "Largest relative error of a row, or of a head of it.")
      .def_ro("row_allowed", &VerifyKind::row_allowed)
      .def_ro("worst_row_place", &VerifyKind::worst_row_place)
      .def_ro("first_beyond", &VerifyKind::first_beyond, "First place beyond either bound; None if there is none.")
      .def_ro("exchanged_rows", &VerifyKind::exchanged_rows, "Of selections: rows that differ from the recording.")
      .def_ro("passed", &VerifyKind::passed)
      .def("__repr__",
           [](const VerifyKind& kind) { return "<VerifyKind " + kind.name + (kind.passed ? " passed>" : " failed>"); });
  nb::class_<VerifyHypothesis>(module, "VerifyHypothesis", "A mistake that might be behind the first failing tensor.")
      .def_ro("name", &VerifyHypothesis::name)
      .def_ro("mistake", &VerifyHypothesis::mistake)
      .def_ro("error", &VerifyHypothesis::error, "What is left of the error under this mistake.")
      .def_ro("fits", &VerifyHypothesis::fits)
      .def("__repr__", [](const VerifyHypothesis& hypothesis) {
        return "<" + hypothesis.name + (hypothesis.fits ? ", fits>" : ">");
      });
  nb::class_<VerifyReport>(module, "VerifyReport", "Result of verify. str() gives the table that `skim verify` prints.")
      .def_ro("file", &VerifyReport::file)
      .def_ro("model", &VerifyReport::model)
      .def_ro("kernels", &VerifyReport::kernels)
      .def_ro("kinds", &VerifyReport::kinds, "In order of computation.")
      .def_ro("layers", &VerifyReport::layers, "The same of each layer by itself.")
      .def_ro("ignored", &VerifyReport::ignored,
              "Tensors of the file that belong to no call or layer, or begin with x_.")
      .def_ro("empty", &VerifyReport::empty, "Tensors without rows, which were not compared.")
      .def_ro("first_failure", &VerifyReport::first_failure, "Call, layer, tensor and how far off; '' if all holds.")
      .def_ro("place", &VerifyReport::place, "Of the first failing tensor.")
      .def_prop_ro("call", [](const VerifyReport& report) { return report.place.call; })
      .def_prop_ro("layer", [](const VerifyReport& report) { return report.place.layer; })
      .def_ro("tensor", &VerifyReport::tensor, "Name of the first failing tensor.")
      .def_ro("error", &VerifyReport::error, "Of the first failing tensor.")
      .def_ro("shape", &VerifyReport::shape, "Sentences: how much of it is wrong, and where.")
      .def_ro("places", &VerifyReport::places, "Of its worst rows, worst first.")
      .def_ro("hypotheses", &VerifyReport::hypotheses, "Mistakes that fit, best first, then the next best.")
      .def_ro("advice", &VerifyReport::advice, "What to record to tell mistakes apart.")
      .def_prop_ro("passed", &VerifyReport::passed)
      .def("json", &report_json, "Everything as JSON.")
      .def("html", &report_html, "The report as one page.")
      .def("_repr_html_", &report_html)
      .def("__bool__", &VerifyReport::passed)
      .def("__repr__",
           [](const VerifyReport& report) {
             return "<VerifyReport " + report.file +
                    (report.passed() ? ": passed>" : ": " + report.first_failure + ">");
           })
      .def("__str__", &report_text);
  module.def("verify", &verify_file, "path"_a, nb::kw_only(), "kernels"_a = "", "tolerance"_a = nb::none(),
             "weights"_a = nb::none(), "threads"_a = 0,
             "Replays a case file (docs/cases.md) and judges every tensor in it.\n\n"
             "weights: a Checkpoint to use instead of the weights in the file. threads: 0 is one per processor.");
}

}  // namespace skim::python

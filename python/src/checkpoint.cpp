// Checkpoints, and files of tensors.
#include "skim/checkpoint.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "arrays.hpp"
#include "calls.hpp"
#include "module.hpp"
#include "skim/error.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace skim::python {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using NamedTensors = std::map<std::string, std::tuple<std::string, std::vector<std::int64_t>, Bytes>>;

DType dtype_called(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DType::u64); ++i) {
    if (dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  throw Error(ErrorCode::invalid_argument, "'" + name + "' is no dtype of safetensors");
}

void write_file(const std::filesystem::path& path, const NamedTensors& tensors,
                const std::map<std::string, std::string>& metadata) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, parts] : tensors) {
    const auto& [dtype, shape, bytes] = parts;
    list.push_back({.name = name,
                    .dtype = dtype_called(dtype),
                    .shape = shape,
                    .bytes = std::as_bytes(std::span(bytes.data(), bytes.size()))});
  }
  without_interpreter([&] { write_safetensors(path, list, metadata); });
}

void bind_class(nb::module_& module) {
  nb::class_<Checkpoint>(
      module, "Checkpoint",
      "Configuration and tensors of a model. Opening reads headers only; bytes are touched when they "
      "are asked for.")
      .def_static(
          "open",
          [](const std::filesystem::path& path) { return without_interpreter([&] { return Checkpoint::open(path); }); },
          "path"_a,
          "A folder with config.json and safetensors, one safetensors file with config.json beside it, or a case file.")
      .def_static(
          "synthetic",
          [](const std::string& name, std::uint64_t seed) { return Checkpoint::synthetic(named_config(name), seed); },
          "config"_a, "seed"_a = 0)
      .def_static("synthetic", &Checkpoint::synthetic, "config"_a, "seed"_a = 0,
                  "Weights made from tensor names alone, of a configuration or its name. No storage is needed.")
      .def_prop_ro(
          "config", [](const Checkpoint& self) { return self.config(); }, "A copy.")
      .def_prop_ro("assumed", &Checkpoint::assumed, "What config.json leaves out and is assumed, a line each.")
      .def(
          "tensors", [](const Checkpoint& self) { return without_interpreter([&] { return self.tensors(); }); },
          "Every tensor there is, by name.")
      .def("__contains__", &Checkpoint::contains, "name"_a)
      .def(
          "tensor",
          [](const Checkpoint& self, const std::string& name) {
            return to_numpy(without_interpreter([&] { return self.tensor(name); }));
          },
          "name"_a, nb::sig("def tensor(self, name: str) -> numpy.typing.NDArray"),
          "Read-only numpy array of the tensor's shape. bfloat16 comes as uint16, 8-bit floats as uint8 (their bits).");
}

}  // namespace

void bind_checkpoint(nb::module_& module) {
  nb::class_<TensorInfo>(module, "TensorInfo", "Name, dtype (as safetensors spells it), shape and size of a tensor.")
      .def_ro("name", &TensorInfo::name)
      .def_prop_ro("dtype", [](const TensorInfo& self) { return dtype_name(self.dtype); })
      .def_ro("shape", &TensorInfo::shape)
      .def_ro("bytes", &TensorInfo::bytes)
      .def("__repr__", [](const TensorInfo& self) {
        return "TensorInfo(" + self.name + ", " + std::string(dtype_name(self.dtype)) + ", " +
               Tensor{self.dtype, self.shape, {}, nullptr}.shape_text() + ")";
      });
  bind_class(module);
  module.def(
      "synthetic_input",
      [](const std::string& name, const std::vector<std::int64_t>& shape) {
        return to_numpy(synthetic_input(name, shape));
      },
      "name"_a, "shape"_a,
      nb::sig("def synthetic_input(name: str, shape: collections.abc.Sequence[int]) -> "
              "numpy.typing.NDArray[numpy.uint16]"),
      "Hidden states made from a name alone: uniform with variance 1, bits of bfloat16.");
  module.def("write_tensors", &write_file, "path"_a, "tensors"_a, "metadata"_a,
             "Tensors as name -> (dtype, shape, bytes).");
}

}  // namespace skim::python

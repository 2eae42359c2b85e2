// Models, caches and batches.
#include "skim/cache.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "batch_handle.hpp"
#include "calls.hpp"
#include "module.hpp"
#include "skim/machine.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace skim::python {
namespace {

std::vector<BatchEntry> batch_entries(nb::handle entries) {
  std::vector<BatchEntry> list;
  const nb::object pairs = nb::isinstance<nb::dict>(entries) ? entries.attr("items")() : nb::borrow(entries);
  for (const nb::handle pair : pairs) {
    std::pair<SequenceId, std::int64_t> entry;
    if (!nb::try_cast(pair, entry)) throw nb::type_error("entries of a batch are pairs of SequenceId and int");
    list.push_back({entry.first, entry.second});
  }
  return list;
}

nb::list ranges(const std::vector<LengthRange>& lengths) {
  static const nb::handle range = nb::object(nb::module_::import_("builtins").attr("range")).release();
  nb::list list;
  for (const LengthRange& part : lengths) list.append(range(part.first, part.last + 1));
  return list;
}

void bind_sequence(nb::module_& module) {
  nb::class_<SequenceId>(module, "SequenceId", "Names a sequence of one KvCache; never reused within it.")
      .def_ro("value", &SequenceId::value)
      .def(nb::self == nb::self)
      .def("__hash__", [](SequenceId self) { return self.value; })
      .def("__repr__", [](SequenceId self) { return "SequenceId(" + std::to_string(self.value) + ")"; });
}

void bind_model(nb::module_& module) {
  nb::class_<Model>(module, "Model",
                    "Attention layers, packed once for one kernel set. Any number of threads may call forward, each on "
                    "a batch of its own.")
      .def(
          "__init__",
          [](Model* self, const Checkpoint& checkpoint, const std::vector<int>& layers, const std::string& kernels,
             bool strict) {
            const ModelOptions options{.layers = layers, .kernels = kernels, .strict = strict, .progress = {}};
            without_interpreter([&] { new (self) Model(checkpoint, options); });
          },
          "checkpoint"_a, nb::kw_only(), "layers"_a = std::vector<int>{}, "kernels"_a = "", "strict"_a = true,
          "layers: none given means all of the backbone; sources of a layer must be among them. kernels: name of a "
          "kernel set, '' for SKIM_KERNELS or the best here. strict: refuse tensors a layer has no use for.")
      .def_prop_ro(
          "config", [](const Model& self) { return self.config(); }, "A copy.")
      .def_prop_ro(
          "layers", [](const Model& self) { return self.layers(); }, "Ascending.")
      .def_prop_ro("kernels", &Model::kernels, "Name of the kernel set in use.")
      .def_prop_ro("weight_bytes", &Model::weight_bytes, "Bytes held by packed weights.")
      .def(
          "forward",
          [](const Model& self, int layer, BatchHandle& batch, nb::object x, nb::object out) {
            return batch.forward(self, layer, std::move(x), std::move(out));
          },
          "layer"_a, "batch"_a, "x"_a, "out"_a = nb::none(),
          nb::sig("def forward(self, layer: int, batch: Batch, x: typing.Any, out: typing.Any = None) -> typing.Any"),
          "Attention of one layer for all tokens of a batch.\n\n"
          "x: [batch.tokens, dim], normalized by the caller, tokens in the order of the sequences given to begin. out: "
          "the same shape, written and returned; may be x itself; None makes a new array of the kind of x. Both are on "
          "the CPU, bfloat16 (torch, ml_dtypes) or its bits as uint16 (anything with DLPack or the buffer protocol), "
          "elements of a row next to each other. Nothing is copied.");
}

void bind_kernel_sets(nb::module_& module) {
  nb::class_<KernelSetInfo>(module, "KernelSetInfo", "Implementation of the heavy operations.")
      .def_ro("name", &KernelSetInfo::name)
      .def_ro("description", &KernelSetInfo::description)
      .def_ro("why_not", &KernelSetInfo::why_not, "Why this machine cannot run it; empty if it can.")
      .def_prop_ro("available", [](const KernelSetInfo& self) { return self.why_not.empty(); },
                   "Whether it runs on this machine.")
      .def("__repr__", [](const KernelSetInfo& self) {
        return "KernelSetInfo(" + std::string(self.name) + (self.why_not.empty() ? ")" : ", not on this machine)");
      });
  module.def("kernel_sets", &kernel_set_infos, "All kernel sets that are compiled in, best first.");
}

void bind_batch(nb::module_& module) {
  nb::class_<BatchHandle>(module, "Batch",
                          "New tokens for some sequences. Layers write into the batch; sequences change when it is "
                          "committed. Leaving its `with` block drops what was not committed, as if it had never begun.")
      .def_prop_ro("tokens", &BatchHandle::tokens)
      .def("commit", nb::overload_cast<>(&BatchHandle::commit),
           "Makes all tokens part of their sequences. Every layer of the model must have run.")
      .def("commit", nb::overload_cast<SequenceId, std::int64_t>(&BatchHandle::commit), "sequence"_a, "accepted"_a,
           "Makes the first `accepted` tokens of one sequence part of it, as if only those had been fed.")
      .def("drop", &BatchHandle::drop, "Ends the batch; what was not committed is gone.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Batch"))
      .def("__exit__", [](BatchHandle& self, const nb::args&) { self.drop(); });
}

void bind_sequences(nb::class_<CacheHandle>& cache) {
  cache.def("add", &CacheHandle::add, "A new, empty sequence.")
      .def("remove", &CacheHandle::remove, "sequence"_a, "Frees a sequence at once.")
      .def("length", &CacheHandle::length, "sequence"_a, "Committed tokens.")
      .def("fork", &CacheHandle::fork, "sequence"_a, "tokens"_a = nb::none(),
           "A new sequence that begins with the first `tokens` tokens of another (None: all) and shares their pages.")
      .def("truncate", &CacheHandle::truncate, "sequence"_a, "tokens"_a,
           "Forgets the tokens behind the first `tokens`.")
      .def(
          "restorable", [](CacheHandle& self, SequenceId sequence) { return ranges(self.restorable(sequence)); },
          "sequence"_a, nb::sig("def restorable(self, sequence: SequenceId) -> list[range]"),
          "Lengths to which a sequence can be truncated and at which it can be forked, ascending.")
      .def("save", &CacheHandle::save, "sequence"_a, "path"_a,
           "Writes a sequence to a file: at any moment there is the old file or the whole new one.")
      .def("load", &CacheHandle::load, "path"_a,
           "A new sequence from such a file, checked and mapped; the file must not be changed in place.")
      .def(
          "begin", [](CacheHandle& self, nb::handle entries) { return self.begin(batch_entries(entries)); },
          "entries"_a,
          nb::sig("def begin(self, entries: collections.abc.Mapping[SequenceId, int] | "
                  "collections.abc.Iterable[tuple[SequenceId, int]]) -> Batch"),
          "Starts a batch: {sequence: new tokens} or pairs. Use it as `with cache.begin(...) as batch`.")
      .def(
          "admission_problem",
          [](CacheHandle& self, nb::handle entries) { return self.admission_problem(batch_entries(entries)); },
          "entries"_a,
          nb::sig("def admission_problem(self, entries: collections.abc.Mapping[SequenceId, int] | "
                  "collections.abc.Iterable[tuple[SequenceId, int]]) -> str | None"),
          "Why begin would refuse these entries now; None if it would not.");
}

}  // namespace

void bind_cache(nb::module_& module) {
  bind_kernel_sets(module);
  bind_sequence(module);
  bind_batch(module);
  bind_model(module);
  const CacheOptions defaults;
  nb::class_<CacheHandle> cache(module, "KvCache",
                                "Caches of the layers of one model, for many sequences. Threads may share one: calls "
                                "wait for one another, but forward calls of different batches run at the same time.");
  cache.def(
      "__init__",
      [](CacheHandle* self, const Model& model, std::int64_t max_tokens, std::int64_t max_sequences,
         std::int64_t max_bytes, std::int64_t rollback, std::int64_t page_rows, std::int64_t workspace_bytes,
         int threads) {
        new (self) CacheHandle(model, {.max_tokens = max_tokens,
                                       .max_sequences = max_sequences,
                                       .max_bytes = max_bytes,
                                       .rollback = rollback,
                                       .page_rows = page_rows,
                                       .workspace_bytes = workspace_bytes,
                                       .threads = threads});
      },
      "model"_a, nb::kw_only(), "max_tokens"_a = defaults.max_tokens, "max_sequences"_a = defaults.max_sequences,
      "max_bytes"_a = defaults.max_bytes, "rollback"_a = defaults.rollback, "page_rows"_a = defaults.page_rows,
      "workspace_bytes"_a = defaults.workspace_bytes, "threads"_a = defaults.threads,
      "max_tokens: longest sequence (V3.2: decides on YaRN). max_bytes: limit for bytes, 0 for none. rollback: latest "
      "tokens that can be taken back. threads: of a forward call, 0 for one per processor.");
  bind_sequences(cache);
  cache.def_prop_ro("bytes", &CacheHandle::bytes, "Bytes that sequences occupy now; shared pages count once.")
      .def_prop_ro("workspace_bytes", &CacheHandle::workspace_bytes,
                   "Bytes of batches and scratch on top. RuntimeError while a forward call runs.");
}

}  // namespace skim::python

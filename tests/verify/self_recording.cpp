#include "verify/self_recording.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "attention/stack.hpp"
#include "skim/config_fields.hpp"

namespace skim::test {
namespace {

Recording::Entry entry_of(const Tape::Rows& rows) {
  Recording::Entry entry;
  std::int64_t width = 0;
  for (const auto& [position, row] : rows) {
    width = static_cast<std::int64_t>(row.size());
    const auto bytes = std::as_bytes(std::span(row));
    entry.bytes.insert(entry.bytes.end(), bytes.begin(), bytes.end());
  }
  entry.info.dtype = DType::bf16;
  entry.info.shape = {1, static_cast<std::int64_t>(rows.size()), width};
  return entry;
}

}  // namespace

SelfRecording::SelfRecording(const Config& config, const std::vector<std::int64_t>& calls,
                             const std::set<std::string, std::less<>>& names) {
  const Model model(Checkpoint::synthetic(config), {.kernels = "portable"});
  KvCache cache(model, {.max_tokens = 1 << 14, .threads = 1});
  const SequenceId sequence = cache.add();
  std::string list;
  std::int64_t start = 0;
  for (std::size_t n = 0; n < calls.size(); ++n) {
    list += fmt::format(R"({}{{"start_pos": {}, "seqlen": {}, "batch": 1, "reset": {}}})", n > 0 ? ", " : "", start,
                        calls[n], n == 0);
    Batch batch = cache.begin(std::vector<BatchEntry>{{sequence, calls[n]}});
    const std::array shape{calls[n], hidden_dim(config)};
    std::vector<bf16> x(static_cast<std::size_t>(shape[0] * shape[1])), out(x.size());
    for (const int layer : model.layers()) {
      const Tensor input = synthetic_input(fmt::format("self.call.{}.layer.{}.x", n, layer), {1, shape[0], shape[1]});
      std::memcpy(x.data(), input.bytes.data(), input.bytes.size());
      Tape tape(names);
      model.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape), &tape);
      for (const std::string& name : names) {
        tensors[fmt::format("call.{}.layer.{}.{}", n, layer, name)] = entry_of(tape.tensor(layer, name));
      }
    }
    batch.commit();
    start += calls[n];
  }
  metadata = {{"format", "attention-case/1"},
              {"model", std::string(model_type(config))},
              {"config", config_json(config)},
              {"calls", "[" + list + "]"},
              {"weights", "filler/1"},
              {"inputs", "filler/1"},
              {"tag", "self"},
              {"layers", fmt::format("[{}]", fmt::join(model.layers(), ", "))}};
}

}  // namespace skim::test

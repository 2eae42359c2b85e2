// How much memory a long context takes, against what it should.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>

#include "bench/layers.hpp"
#include "bench/run.hpp"

namespace skim::bench {
namespace {

/// Bytes of this process in memory.
std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmRSS:") continue;
    std::int64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes << 10;
  }
  return 0;
}

std::string mebibytes(std::int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

nlohmann::ordered_json bench_memory(const BenchModel& model, const LayerOptions& options, const std::string& kernels,
                                    int threads) {
  malloc_trim(0);  // what an earlier model left behind is not of this one
  const std::int64_t before = resident_bytes();
  const std::int64_t context = *std::max_element(options.contexts.begin(), options.contexts.end());
  LayerSubject subject(model.checkpoint, {.layers = options.layers, .kernels = kernels},
                       {.max_tokens = context + options.tokens, .threads = threads});
  malloc_trim(0);  // checkpoint tensors that were packed
  subject.plant(context);

  const std::int64_t weights = subject.model().weight_bytes();
  const std::int64_t rows = cache_cost(model.checkpoint.config(), options.layers).bytes_at(context);
  fmt::print(
      "\n{}: memory with {} tokens, layers {}, {} kernels; {} before\n{:<10} {:>12} {:>12} {:>12} {:>12} {:>12} "
      "{:>9}\n",
      model.name, context, fmt::join(options.layers, ","), subject.model().kernels(), mebibytes(before), "", "weights",
      "rows", "workspace", "together", "resident", "ratio");
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto measure = [&](const char* mode, std::int64_t tokens) {
    subject.before_drop = [&] {
      const std::int64_t workspace = subject.cache().workspace_bytes(), resident = resident_bytes();
      const std::int64_t together = weights + rows + workspace;
      const double ratio = static_cast<double>(resident) / static_cast<double>(together);
      fmt::print("{:<10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>9.3f}\n", mode, mebibytes(weights), mebibytes(rows),
                 mebibytes(workspace), mebibytes(together), mebibytes(resident), ratio);
      list.push_back({{"model", model.name},
                      {"set", subject.model().kernels()},
                      {"layers", options.layers},
                      {"mode", mode},
                      {"context", context},
                      {"tokens", tokens},
                      {"resident_before", before},
                      {"weights", weights},
                      {"rows", rows},
                      {"cache", subject.cache().bytes()},
                      {"workspace", workspace},
                      {"resident", resident},
                      {"ratio", ratio}});
    };
    subject.forward(tokens);
  };
  if (options.decode) measure("decode", 1);
  if (options.prefill) measure("prefill", options.tokens);
  return list;
}

}  // namespace skim::bench

// Time of one forward call for one token of v41-tiny's layer 0, in microseconds, which nine in ten calls take longer
// than: what bench/peers/python_overhead.py compares with the same call from Python.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "skim/skim.hpp"

int main() {
  constexpr int kCalls = 2000;
  try {
    const skim::Model model(skim::Checkpoint::synthetic(skim::named_config("v41-tiny")));
    skim::KvCache cache(model, {.max_tokens = 4096, .threads = 1});
    const skim::SequenceId sequence = cache.add();
    const std::int64_t dim = skim::hidden_dim(model.config());
    const skim::Tensor input = skim::synthetic_input("x", {1, dim});
    const skim::View<const skim::bf16, 2> x(reinterpret_cast<const skim::bf16*>(input.bytes.data()), {1, dim});
    std::vector<skim::bf16> out(static_cast<std::size_t>(dim));
    std::vector<double> times;
    for (int i = 0; i < kCalls; ++i) {
      skim::Batch batch = cache.begin({{sequence, 1}});
      const auto start = std::chrono::steady_clock::now();
      model.forward(0, batch, x, {out.data(), {1, dim}});
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    std::nth_element(times.begin(), times.begin() + kCalls / 10, times.end());
    std::printf("%.3f\n", times[kCalls / 10]);
    return 0;
  } catch (const skim::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// An engine in small: two sequences share a batch, one prefilling, one decoding. Made-up weights and hidden states.
#include <cstdio>
#include <exception>
#include <vector>

#include "skim/skim.hpp"

namespace {

/// Stands for what an engine computes between attention layers: here, just other numbers for each step and layer.
std::vector<skim::bf16> hidden_states(int step, int layer, std::int64_t tokens, std::int64_t dim) {
  const skim::Tensor x =
      skim::synthetic_input("engine." + std::to_string(step) + "." + std::to_string(layer), {tokens, dim});
  const auto* values = reinterpret_cast<const skim::bf16*>(x.bytes.data());
  return {values, values + tokens * dim};
}

void step(const skim::Model& model, skim::KvCache& cache, int number, std::initializer_list<skim::BatchEntry> entries) {
  const std::int64_t dim = skim::hidden_dim(model.config());
  skim::Batch batch = cache.begin(entries);
  std::vector<skim::bf16> out(static_cast<std::size_t>(batch.tokens() * dim));
  for (const int layer : model.layers()) {
    const std::vector<skim::bf16> x = hidden_states(number, layer, batch.tokens(), dim);
    model.forward(layer, batch, {x.data(), {batch.tokens(), dim}}, {out.data(), {batch.tokens(), dim}});
  }
  batch.commit();
  std::printf("step %d: %lld tokens\n", number, static_cast<long long>(batch.tokens()));
}

void run() {
  const auto checkpoint = skim::Checkpoint::synthetic(skim::named_config("v41-tiny"));
  const skim::Model model(checkpoint, {.layers = {0, 2, 3}});
  skim::KvCache cache(model, {.max_tokens = 4096});
  const auto a = cache.add(), b = cache.add();
  step(model, cache, 0, {{a, 40}});
  step(model, cache, 1, {{b, 25}, {a, 1}});  // b prefills, a decodes
  for (int i = 2; i < 6; ++i) step(model, cache, i, {{a, 1}, {b, 1}});
  std::printf("a holds %lld tokens, b %lld; caches take %lld bytes\n", static_cast<long long>(cache.length(a)),
              static_cast<long long>(cache.length(b)), static_cast<long long>(cache.bytes()));
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

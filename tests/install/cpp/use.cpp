// A program outside of skim: five tokens through a tiny model.
#include <skim/skim.hpp>

#include <array>
#include <cstdio>
#include <exception>
#include <vector>

int main() try {
  const skim::Model model(skim::Checkpoint::synthetic(skim::named_config("v32-tiny")));
  skim::KvCache cache(model, {.max_tokens = 64});
  const skim::SequenceId sequence = cache.add();
  skim::Batch batch = cache.begin({{sequence, 5}});
  const std::array shape{batch.tokens(), skim::hidden_dim(model.config())};
  const skim::Tensor x = skim::synthetic_input("x", {shape[0], shape[1]});
  std::vector<skim::bf16> out(static_cast<std::size_t>(shape[0] * shape[1]));
  for (const int layer : model.layers()) {
    model.forward(layer, batch, {reinterpret_cast<const skim::bf16*>(x.bytes.data()), shape}, {out.data(), shape});
  }
  batch.commit();
  std::printf("%lld tokens, %s kernels\n", static_cast<long long>(cache.length(sequence)), model.kernels().data());
  return cache.length(sequence) == 5 && out.back().bits != 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

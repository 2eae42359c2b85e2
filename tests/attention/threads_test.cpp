// Forward calls of different batches at the same time, on two models and two caches, change nothing. Built with the
// thread sanitizer by `make test`.
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "attention/stack.hpp"

namespace skim::test {
namespace {

constexpr std::int64_t kRounds[] = {20, 1, 7, 1, 1, 12};

/// Feeds the next tokens of one sequence.
struct Feeder {
  const Model& model;
  std::string name;
  SequenceId id;
  std::int64_t length = 0;
  std::map<int, std::vector<bf16>> outputs = {};

  void run(Batch& batch, std::int64_t tokens) {
    const std::int64_t dim = hidden_dim(model.config());
    const std::array shape{tokens, dim};
    for (const int layer : model.layers()) {
      std::vector<bf16> x, out(static_cast<std::size_t>(tokens * dim));
      for (std::int64_t i = 0; i < tokens; ++i) {
        const std::vector<bf16> state = hidden_state(name, layer, length + i, dim);
        x.insert(x.end(), state.begin(), state.end());
      }
      model.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape));
      outputs[layer].insert(outputs[layer].end(), out.begin(), out.end());
    }
    length += tokens;
  }
};

TEST(Threads, FourBatchesOfTwoModelsAtTheSameTime) {
  const Model v41(Checkpoint::synthetic(named_config("v41-tiny")));
  const Model v32(Checkpoint::synthetic(named_config("v32-tiny")));
  const CacheOptions options{.max_tokens = 64, .page_rows = 4, .threads = 1};
  KvCache first(v41, options), second(v32, options);
  std::vector<Feeder> feeders;
  for (const char* name : {"a", "b"}) {
    feeders.push_back({v41, name, first.add()});
    feeders.push_back({v32, name, second.add()});
  }
  for (const std::int64_t tokens : kRounds) {
    std::vector<Batch> batches;
    for (const Feeder& feeder : feeders) {
      batches.push_back((&feeder.model == &v41 ? first : second).begin({{feeder.id, tokens}}));
    }
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < feeders.size(); ++i) {
      threads.emplace_back([&, i] { feeders[i].run(batches[i], tokens); });
    }
    for (std::thread& thread : threads) thread.join();
    for (Batch& batch : batches) batch.commit();
  }
  for (const Feeder& feeder : feeders) {
    EXPECT_EQ(feeder.outputs, run_alone(feeder.model, options, feeder.name, {42}).out) << feeder.name;
  }
}

}  // namespace
}  // namespace skim::test

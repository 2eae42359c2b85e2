// Whole layers behind a planted context.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/ceilings.hpp"
#include "bench/random.hpp"
#include "bench/sample.hpp"
#include "skim/skim.hpp"

namespace skim::bench {

/// What one forward call of a layer on `tokens` new tokens behind `context` others has to do.
Work layer_work(const Checkpoint& checkpoint, int layer, std::int64_t context, std::int64_t tokens);

/// Layers of a model with one kernel set, and a cache.
class LayerSubject {
 public:
  LayerSubject(const Checkpoint& checkpoint, const ModelOptions& model, const CacheOptions& cache);

  /// The sequence that is continued from now on.
  void plant(std::int64_t context);
  /// Seconds of each layer in a batch of `tokens` tokens, which is dropped.
  std::vector<double> forward(std::int64_t tokens);
  const Model& model() const { return model_; }
  const KvCache& cache() const { return cache_; }
  /// Called in the middle of `forward`, when all layers have run.
  std::function<void()> before_drop = [] {};

 private:
  Model model_;
  KvCache cache_;
  SequenceId sequence_;
  std::vector<bf16> x_, out_;
};

}  // namespace skim::bench

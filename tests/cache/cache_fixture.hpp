// What tests of caches and batches share.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "attention/stack.hpp"
#include "named_v41.hpp"

namespace skim::test {

/// Says why `call` did not throw this code with all of these words.
template <class Call>
testing::AssertionResult refuses(Call call, ErrorCode code, const std::vector<std::string>& words = {}) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (error.code() != code) return testing::AssertionFailure() << "another code: " << message;
    for (const std::string& word : words) {
      if (message.find(word) == std::string::npos)
        return testing::AssertionFailure() << "no '" << word << "': " << message;
    }
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "no error";
}

class Cache : public testing::Test {
 protected:
  static CacheOptions options() { return {.max_tokens = 256, .page_rows = 16, .threads = 1}; }
  std::int64_t dim() const { return hidden_dim(model_.config()); }
  std::array<std::int64_t, 2> shape(std::int64_t tokens) const { return {tokens, dim()}; }

  /// Hidden states of tokens [first, first + count) of "a".
  std::vector<bf16> states(int layer, std::int64_t first, std::int64_t count, const std::string& name = "a") const {
    std::vector<bf16> x;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<bf16> state = hidden_state(name, layer, first + i, dim());
      x.insert(x.end(), state.begin(), state.end());
    }
    return x;
  }
  std::vector<bf16> forward(int layer, Batch& batch, std::int64_t first, Trace* trace = nullptr) const {
    return forward(layer, batch, states(layer, first, batch.tokens()), trace);
  }
  std::vector<bf16> forward(int layer, Batch& batch, const std::vector<bf16>& x, Trace* trace = nullptr) const {
    std::vector<bf16> out(x.size());
    model_.forward(layer, batch, View<const bf16, 2>(x.data(), shape(batch.tokens())),
                   View<bf16, 2>(out.data(), shape(batch.tokens())), trace);
    return out;
  }
  /// All layers, so that the batch can be committed.
  void forward_all(Batch& batch, std::int64_t first) const {
    for (const int layer : model_.layers()) forward(layer, batch, first);
  }
  void feed(KvCache& cache, SequenceId id, std::int64_t tokens) const {
    Batch batch = cache.begin({{id, tokens}});
    forward_all(batch, cache.length(id));
    batch.commit();
  }

  Model model_{Checkpoint::synthetic(named_v41("v41-tiny"))};
};

}  // namespace skim::test

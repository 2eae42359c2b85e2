// What tests of the C API share: a tiny model with its handles, and batches that go through it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "attention/stack.hpp"
#include "skim/skim.h"

namespace skim::test {

/// Says why `code` is not SKIM_OK.
inline testing::AssertionResult ok(int code, const skim_error& error) {
  if (code == SKIM_OK && error.code == SKIM_OK && *error.message == '\0') return testing::AssertionSuccess();
  return testing::AssertionFailure() << "code " << code << ", " << error.code << ": " << error.message;
}

/// `call` must return this code with and without an error buffer; the message must hold the word.
template <class Call>
testing::AssertionResult refuses_in_c(const Call& call, int code, const std::string& word) {
  skim_error error{};
  const int with = call(&error), without = call(nullptr);
  const std::string message = error.message;
  if (with == code && without == code && error.code == code && message.find(word) != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "codes " << with << ", " << error.code << ", " << without << ": " << message
                                     << "; expected " << code << " with '" << word << "'";
}

/// A cache of v32-tiny with one empty sequence. Every handle may be freed and set to null by a test.
class CApi : public testing::Test {
 protected:
  CApi() {
    EXPECT_TRUE(ok(skim_checkpoint_synthetic("v32-tiny", 0, &checkpoint_, &error_), error_));
    EXPECT_TRUE(ok(skim_model_create(checkpoint_, nullptr, &model_, &error_), error_));
    skim_model_info info{.size = sizeof info, .kernels = {}, .dim = 0, .layer_count = 0, .weight_bytes = 0};
    EXPECT_TRUE(ok(skim_model_get_info(model_, &info, &error_), error_));
    dim_ = info.dim;
    layers_.resize(static_cast<std::size_t>(info.layer_count));
    std::size_t count = 0;
    EXPECT_TRUE(ok(skim_model_layers(model_, layers_.data(), layers_.size(), &count, &error_), error_));
    cache_ = new_cache();
    sequence_ = new_sequence(cache_);
  }
  ~CApi() override {
    skim_cache_free(cache_);
    skim_model_free(model_);
    skim_checkpoint_free(checkpoint_);
  }

  static skim_cache_options small_cache() {
    skim_cache_options options{};
    options.size = sizeof options;
    options.max_tokens = 64;
    options.page_rows = 4;
    options.threads = 1;
    return options;
  }
  skim_cache* new_cache() {
    const skim_cache_options options = small_cache();
    skim_cache* cache = nullptr;
    EXPECT_TRUE(ok(skim_cache_create(model_, &options, &cache, &error_), error_));
    return cache;
  }
  std::int64_t new_sequence(skim_cache* cache) {
    std::int64_t sequence = -1;
    EXPECT_TRUE(ok(skim_cache_add(cache, &sequence, &error_), error_));
    return sequence;
  }
  skim_batch* new_batch(std::int64_t tokens, skim_cache* cache, std::int64_t sequence) {
    const skim_batch_entry entry{sequence, tokens};
    skim_batch* batch = nullptr;
    EXPECT_TRUE(ok(skim_batch_begin(cache, &entry, 1, &batch, &error_), error_));
    return batch;
  }
  skim_batch* new_batch(std::int64_t tokens) { return new_batch(tokens, cache_, sequence_); }

  /// Hidden states of tokens [first, first + count).
  std::vector<std::uint16_t> states(std::int64_t first, std::int64_t count) const {
    std::vector<std::uint16_t> x;
    for (std::int64_t i = first; i < first + count; ++i) {
      for (const bf16 value : hidden_state("a", 0, i, dim_)) x.push_back(value.bits);
    }
    return x;
  }
  skim_const_rows rows(const std::vector<std::uint16_t>& x) const { return {x.data(), count(x), dim_, 0}; }
  skim_rows rows(std::vector<std::uint16_t>& x) const { return {x.data(), count(x), dim_, 0}; }

  /// Runs all layers on the states of tokens that begin at `first`; returns what the last of them put out.
  std::vector<std::uint16_t> forward(skim_batch* batch, std::int64_t first) {
    std::int64_t tokens = 0;
    EXPECT_TRUE(ok(skim_batch_tokens(batch, &tokens, &error_), error_));
    const std::vector<std::uint16_t> x = states(first, tokens);
    std::vector<std::uint16_t> out(x.size());
    const skim_const_rows in_rows = rows(x);
    const skim_rows out_rows = rows(out);
    for (const int layer : layers_) {
      EXPECT_TRUE(ok(skim_batch_forward(batch, layer, &in_rows, &out_rows, &error_), error_));
    }
    return out;
  }
  /// Appends tokens to a sequence; returns the last layer's output.
  std::vector<std::uint16_t> feed(skim_cache* cache, std::int64_t sequence, std::int64_t tokens) {
    const std::int64_t first = length(cache, sequence);
    skim_batch* batch = new_batch(tokens, cache, sequence);
    std::vector<std::uint16_t> out = forward(batch, first);
    EXPECT_TRUE(ok(skim_batch_commit(batch, &error_), error_));
    skim_batch_free(batch);
    return out;
  }
  std::int64_t length(const skim_cache* cache, std::int64_t sequence) {
    std::int64_t tokens = -1;
    EXPECT_TRUE(ok(skim_cache_length(cache, sequence, &tokens, &error_), error_));
    return tokens;
  }

  skim_error error_{};
  skim_checkpoint* checkpoint_ = nullptr;
  skim_model* model_ = nullptr;
  skim_cache* cache_ = nullptr;
  std::int64_t sequence_ = -1;
  std::int64_t dim_ = 0;
  std::vector<std::int32_t> layers_;

 private:
  std::int64_t count(const std::vector<std::uint16_t>& x) const { return static_cast<std::int64_t>(x.size()) / dim_; }
};

}  // namespace skim::test

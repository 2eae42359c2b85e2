// Claims: what C computes is what C++ computes, bit for bit.
#include "capi/decode.h"

#include <gtest/gtest.h>

#include "attention/stack.hpp"

namespace skim::test {
namespace {

constexpr std::int64_t kPrefill = 40, kTokens = 46;

class DecodeInC : public testing::TestWithParam<std::string> {};

TEST_P(DecodeInC, GivesTheBitsOfCpp) {
  const std::string kernels = available_sets().front();
  const Model model(Checkpoint::synthetic(named_config(GetParam())), {.kernels = kernels});
  const std::int64_t dim = hidden_dim(model.config());
  std::vector<std::uint16_t> x, expected;
  for (const auto& [layer, out] : run_alone(model, {.max_tokens = 256}, "a", {kPrefill, kTokens - kPrefill}).out) {
    for (std::int64_t i = 0; i < kTokens; ++i) {
      for (const bf16 value : hidden_state("a", layer, i, dim)) x.push_back(value.bits);
    }
    for (const bf16 value : out) expected.push_back(value.bits);
  }
  ASSERT_EQ(expected.size(), x.size());
  std::vector<std::uint16_t> found(x.size());
  const decode_task task{GetParam().c_str(), kernels.c_str(), kPrefill, kTokens, x.data(), found.data()};
  skim_error error{};
  ASSERT_EQ(decode_in_c(&task, &error), SKIM_OK) << error.message;
  EXPECT_EQ(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Every, DecodeInC, testing::Values("v41-tiny", "v32-tiny"),
                         [](const auto& suite) { return suite.param.substr(0, 3); });

}  // namespace
}  // namespace skim::test

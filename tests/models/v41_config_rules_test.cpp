// Claims: each rule of validate() refuses what breaks it, in a message with the values that contradict one another.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/expect_error.hpp"
#include "named_v41.hpp"
#include "skim/config.hpp"

namespace skim::test {
namespace {

constexpr int kLargest = 1 << 24;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A change to v41-tiny that breaks one rule, and what the message must hold.
struct Rule {
  const char* name;
  void (*change)(V41Config&);
  std::vector<std::string> words;
};

void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

class ConfigRule : public testing::TestWithParam<Rule> {};

TEST_P(ConfigRule, IsKept) {
  V41Config config = named_v41("v41-tiny");
  EXPECT_NO_THROW(validate(config));
  GetParam().change(config);
  const std::string message = expect_error(ErrorCode::bad_config, GetParam().words, [&] { validate(config); });
  EXPECT_TRUE(message.starts_with("config: ")) << message;
}

const std::vector<Rule> kShapeRules = {
    {"Dim", [](V41Config& c) { c.dim = 0; }, {"dim is 0", "16777216"}},
    {"DimTooLarge", [](V41Config& c) { c.dim = kLargest + 1; }, {"dim is 16777217", "16777216"}},
    {"DimBeyond32Bits", [](V41Config& c) { c.dim = std::int64_t{1} << 62; }, {"dim is 4611686018427387904"}},
    {"Layers", [](V41Config& c) { c.n_layers = 0; }, {"n_layers is 0"}},
    {"Heads", [](V41Config& c) { c.n_heads = -4; }, {"n_heads is -4"}},
    {"HeadDim", [](V41Config& c) { c.head_dim = 0; }, {"head_dim is 0"}},
    {"RopeHeadDim", [](V41Config& c) { c.rope_head_dim = 0; }, {"rope_head_dim is 0"}},
    {"QueryRank", [](V41Config& c) { c.q_lora_rank = 0; }, {"q_lora_rank is 0"}},
    {"OutputGroups", [](V41Config& c) { c.o_groups = 0; }, {"o_groups is 0"}},
    {"OutputRank", [](V41Config& c) { c.o_lora_rank = 0; }, {"o_lora_rank is 0"}},
    {"Window", [](V41Config& c) { c.window_size = 0; }, {"window_size is 0"}},
    {"WindowTooLarge", [](V41Config& c) { c.window_size = kLargest + 1; }, {"window_size is 16777217"}},
    {"HeadDimInGroups", [](V41Config& c) { c.head_dim = 80; }, {"head_dim is 80", "32"}},
    {"HeadsInGroups", [](V41Config& c) { c.o_groups = 3; }, {"n_heads is 4", "3", "o_groups"}},
    {"RopeInPairs", [](V41Config& c) { c.rope_head_dim = 15; }, {"rope_head_dim is 15", "2"}},
    {"RopeInHead", [](V41Config& c) { c.rope_head_dim = 66; }, {"rope_head_dim is 66", "head_dim 64"}},
    {"RopeInIndexHead",
     [](V41Config& c) { c.rope_head_dim = 34, c.index_head_dim = 32; },
     {"rope_head_dim is 34", "index_head_dim 32"}},
    {"DraftLayers", [](V41Config& c) { c.n_draft_layers = -1; }, {"n_draft_layers is -1"}},
};
INSTANTIATE_TEST_SUITE_P(Shape, ConfigRule, testing::ValuesIn(kShapeRules), [](const auto& i) { return i.param.name; });

const std::vector<Rule> kRopeRules = {
    {"NormEps", [](V41Config& c) { c.norm_eps = -1e-6; }, {"norm_eps is -1e-06"}},
    {"NormEpsNan", [](V41Config& c) { c.norm_eps = std::nan(""); }, {"norm_eps is nan"}},
    {"Theta", [](V41Config& c) { c.rope_theta = 0; }, {"rope_theta is 0", "expected 1 to"}},
    {"ThetaNegative", [](V41Config& c) { c.rope_theta = -1; }, {"rope_theta is -1"}},
    {"ThetaInfinite", [](V41Config& c) { c.rope_theta = kInfinity; }, {"rope_theta is inf"}},
    {"CompressTheta", [](V41Config& c) { c.compress_rope_theta = 0; }, {"compress_rope_theta is 0"}},
    {"CompressThetaNan", [](V41Config& c) { c.compress_rope_theta = std::nan(""); }, {"compress_rope_theta is nan"}},
    {"CompressThetaYarn", [](V41Config& c) { c.compress_rope_theta = 1; }, {"compress_rope_theta is 1", "16"}},
    {"OriginalLength", [](V41Config& c) { c.original_seq_len = -1; }, {"original_seq_len is -1"}},
    {"Factor", [](V41Config& c) { c.rope_factor = 0; }, {"rope_factor is 0"}},
    {"FactorNegative", [](V41Config& c) { c.rope_factor = -1; }, {"rope_factor is -1"}},
    {"BetaFast", [](V41Config& c) { c.beta_fast = 0; }, {"beta_fast is 0"}},
    {"BetaSlow", [](V41Config& c) { c.beta_slow = -kInfinity; }, {"beta_slow is -inf"}},
};
INSTANTIATE_TEST_SUITE_P(Rope, ConfigRule, testing::ValuesIn(kRopeRules), [](const auto& i) { return i.param.name; });

const std::vector<Rule> kLayerRules = {
    {"RatiosTooFew", [](V41Config& c) { c.compress_ratios.pop_back(); }, {"compress_ratios has 7", "expected 8"}},
    {"RatiosTooMany", [](V41Config& c) { c.compress_ratios.push_back(0); }, {"compress_ratios has 9", "expected 8"}},
    {"RatioNegative", [](V41Config& c) { c.compress_ratios[3] = -1; }, {"compress_ratios[3] is -1"}},
    {"RatioTooLarge", [](V41Config& c) { c.compress_ratios[3] = 4097; }, {"compress_ratios[3] is 4097", "4096"}},
    {"RatioOfDraft", [](V41Config& c) { c.compress_ratios[7] = 1; }, {"compress_ratios[7] is 1", "from 7"}},
    {"KvSourceBeyond",
     [](V41Config& c) {
       c.kv_source_layers = {2, 7};
     },
     {"kv_source_layers", "layer 7", "0 to 6"}},
    {"KvSourceNegative",
     [](V41Config& c) {
       c.kv_source_layers = {-1, 2};
     },
     {"kv_source_layers", "layer -1"}},
    {"KvSourceOrder",
     [](V41Config& c) {
       c.kv_source_layers = {4, 2};
     },
     {"kv_source_layers has layer 2 after layer 4", "ascending"}},
    {"KvSourceTwice",
     [](V41Config& c) {
       c.kv_source_layers = {2, 2, 4};
     },
     {"kv_source_layers has layer 2 after layer 2"}},
    {"KvSourceWithoutRatio",
     [](V41Config& c) {
       c.kv_source_layers = {1, 2, 4};
     },
     {"kv_source_layers", "layer 1"}},
    {"IndexSourceBeyond", [](V41Config& c) { c.index_source_layers.push_back(9); }, {"index_source_layers", "9", "6"}},
    {"IndexSourceOrder",
     [](V41Config& c) {
       c.index_source_layers = {2, 5, 4};
     },
     {"index_source_layers has layer 4 after layer 5"}},
    {"IndexSourceWithoutRatio",
     [](V41Config& c) {
       c.index_source_layers = {0, 2, 4};
     },
     {"layer 0", "is 0"}},
    {"KvSourceWithoutIndex",
     [](V41Config& c) {
       c.index_source_layers = {2, 5};
     },
     {"kv_source_layers names layer 4", "index_source_layers"}},
    {"NoKvSource", [](V41Config& c) { c.kv_source_layers = {4}; }, {"layer 2 has compress_ratio 2"}},
    {"NoKvSourceAtAll", [](V41Config& c) { c.kv_source_layers = {}; }, {"layer 2 has compress_ratio 2"}},
    {"NoKvSourceOfTheRatio", [](V41Config& c) { c.compress_ratios[3] = 3; }, {"layer 3 has compress_ratio 3"}},
    {"SelectionOfAnotherRatio",
     [](V41Config& c) { c.compress_ratios[6] = 2; },
     {"layer 6 has compress_ratio 2", "layer 5, whose compress_ratio is 1"}},
};
INSTANTIATE_TEST_SUITE_P(Layers, ConfigRule, testing::ValuesIn(kLayerRules),
                         [](const auto& i) { return i.param.name; });

const std::vector<Rule> kIndexRules = {
    {"IndexHeads", [](V41Config& c) { c.index_n_heads = 0; }, {"index_n_heads is 0"}},
    {"IndexHeadDim", [](V41Config& c) { c.index_head_dim = -32; }, {"index_head_dim is -32"}},
    {"IndexHeadDimInGroups", [](V41Config& c) { c.index_head_dim = 48; }, {"index_head_dim is 48", "32"}},
    {"Topk", [](V41Config& c) { c.index_topk = 0; }, {"index_topk is 0"}},
    {"CandidateSource",
     [](V41Config& c) { c.candidate_source_layer = 3; },
     {"candidate_source_layer is 3", "index_source_layers"}},
    {"CandidateSourceBeyond", [](V41Config& c) { c.candidate_source_layer = 40; }, {"candidate_source_layer is 40"}},
    {"CandidateSourceNegative", [](V41Config& c) { c.candidate_source_layer = -2; }, {"candidate_source_layer is -2"}},
    {"CandidateBlocks", [](V41Config& c) { c.candidate_topk_blocks = 0; }, {"candidate_topk_blocks is 0"}},
    {"CandidateBlockSize", [](V41Config& c) { c.candidate_block_size = 0; }, {"candidate_block_size is 0"}},
    {"CandidatesOfAnotherRatio",
     [](V41Config& c) {
       c.compress_ratios[6] = 2, c.index_source_layers = {2, 4, 5, 6};
     },
     {"index source 6 has compress_ratio 2", "layer 4, whose compress_ratio is 1"}},
};
INSTANTIATE_TEST_SUITE_P(Index, ConfigRule, testing::ValuesIn(kIndexRules), [](const auto& i) { return i.param.name; });

TEST(ConfigLimits, AreAcceptedThemselves) {
  V41Config config = named_v41("v41-tiny");
  config.dim = config.window_size = config.q_lora_rank = config.index_topk = kLargest;
  config.candidate_topk_blocks = kLargest;
  config.norm_eps = 0;
  config.compress_ratios = {4096, 4096, 2, 2, 1, 1, 1, 0};
  config.kv_source_layers = {0, 2, 4};
  config.index_source_layers = {0, 2, 4, 5};
  config.rope_head_dim = config.head_dim;
  EXPECT_NO_THROW(validate(config));
}

TEST(ConfigLimits, WithoutCompressionNothingIsAskedOfTheIndex) {
  V41Config config = named_v41("v41-tiny");
  config.compress_ratios.assign(8, 0);
  config.kv_source_layers = config.index_source_layers = {};
  config.candidate_source_layer = -1;
  config.index_n_heads = config.index_head_dim = config.index_topk = 0;
  EXPECT_NO_THROW(validate(config));
}

TEST(Fault10, CandidatesMustHoldTopkPositions) {
  V41Config config = named_v41("v41-tiny");
  config.candidate_topk_blocks = 2;
  config.candidate_block_size = 8;
  config.index_topk = 16;
  expect_error(ErrorCode::bad_config, {"candidate_topk_blocks 2", "candidate_block_size 8", " 9 ", "index_topk 16"},
               [&] { validate(config); });
  config.index_topk = 10;
  expect_error(ErrorCode::bad_config, {" 9 ", "index_topk 10"}, [&] { validate(config); });
  config.index_topk = 9;
  EXPECT_NO_THROW(validate(config));
}

}  // namespace
}  // namespace skim::test

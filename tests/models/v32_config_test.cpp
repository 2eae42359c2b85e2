// Claims: both spellings of a V3.2 configuration give the same V32Config; whatever is missing, of the wrong type, out
// of range or of another model is refused in a message that names the field.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "checkpoint/expect_error.hpp"
#include "models/config_text.hpp"
#include "named_v32.hpp"
#include "named_v41.hpp"
#include "skim/config_fields.hpp"

namespace skim::test {
namespace {

const std::string kReleased = R"({
  "architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", "torch_dtype": "bfloat16",
  "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
  "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
  "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, "n_routed_experts": 256, "n_group": 8,
  "num_nextn_predict_layers": 1, "max_position_embeddings": 163840, "rms_norm_eps": 1e-06, "rope_theta": 10000,
  "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
                   "original_max_position_embeddings": 4096},
  "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "scale_fmt": "ue8m0",
                          "weight_block_size": [128, 128]}
})";

/// What released inference configurations say of attention.
const std::string kInference = R"({
  "vocab_size": 129280, "dim": 7168, "inter_dim": 18432, "n_layers": 61, "n_dense_layers": 3, "n_heads": 128,
  "n_routed_experts": 256, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "dtype": "fp8", "scale_fmt": "ue8m0", "index_n_heads": 64, "index_head_dim": 128,
  "index_topk": 2048
})";

V32Config parse(const std::string& document) { return as_v32(parse_text(document)); }

std::string tiny_released() { return released_json(named_v32("v32-tiny")); }
std::string tiny_inference() { return config_json(named_v32("v32-tiny")); }

/// Fields that need not be there.
const std::set<std::string> kOptionalReleased = {"/model_type",
                                                 "/num_nextn_predict_layers",
                                                 "/max_position_embeddings",
                                                 "/rope_scaling",
                                                 "/rope_scaling/type",
                                                 "/rope_scaling/beta_fast",
                                                 "/rope_scaling/mscale",
                                                 "/rope_scaling/mscale_all_dim",
                                                 "/rope_scaling/beta_slow",
                                                 "/quantization_config",
                                                 "/quantization_config/weight_block_size",
                                                 "/indexer_rope_interleave"};
const std::set<std::string> kOptionalInference = {"/model_type",  "/num_nextn_predict_layers",
                                                  "/norm_eps",    "/rope_theta",
                                                  "/rope_factor", "/beta_fast",
                                                  "/beta_slow",   "/mscale",
                                                  "/dtype",       "/original_seq_len",
                                                  "/max_seq_len"};

TEST(V32Config, TheReleasedModelIsV32WithADraftLayer) {
  V32Config released = as_v32(parse_config(kReleased, "config.json"));
  EXPECT_EQ(released.n_draft_layers, 1);
  EXPECT_EQ(layer_count(released), 62);
  EXPECT_EQ(backbone_layers(released), 61);
  EXPECT_EQ(hidden_dim(released), 7168);
  EXPECT_EQ(model_type(released), "deepseek_v32");
  released.n_draft_layers = 0;
  EXPECT_EQ(released, named_v32("v32"));
}

TEST(V32Config, TheInferenceSpellingLeavesOutWhatThePublishedCodeKnows) {
  const V32Config config = as_v32(parse_config(kInference, "config.json"));
  V32Config released = named_v32("v32");
  released.max_positions = 0;  // not said
  EXPECT_EQ(config, released);
  EXPECT_EQ(config.norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_EQ(config.original_seq_len, 4096);
  EXPECT_EQ(config.rope_factor, 40);
  EXPECT_EQ(config.beta_fast, 32);
  EXPECT_EQ(config.beta_slow, 1);
  EXPECT_EQ(config.mscale, 1);
}

TEST(V32Config, BothSpellingsGiveTheConfigurationBack) {
  V32Config other = named_v32("v32-tiny");
  other.n_draft_layers = 3;
  other.ue8m0_scales = false;
  other.norm_eps = 1e-5;
  other.rope_theta = 50000;
  other.rope_factor = 8;
  other.beta_fast = 24;
  other.beta_slow = 2;
  other.mscale = 0.707;
  V32Config plain = named_v32("v32-tiny");
  plain.original_seq_len = 0;
  plain.rope_factor = 40;
  for (const V32Config& config : {named_v32("v32"), named_v32("v32-tiny"), other, plain}) {
    EXPECT_EQ(parse(released_json(config)), config);
    EXPECT_EQ(parse(config_json(config)), config);
  }
  other.weight_type = WeightType::bf16;
  EXPECT_EQ(parse(config_json(other)), other);
}

TEST(V32Config, EveryRequiredFieldIsNamedIfItIsMissing) {
  // scale_fmt has an own test: null says more than nothing.
  expect_missing_fields_named(without(tiny_released(), "/quantization_config/scale_fmt"), kOptionalReleased);
  expect_missing_fields_named(without(tiny_inference(), "/scale_fmt"), kOptionalInference);
}

TEST(V32Config, EveryFieldOfTheWrongTypeIsNamed) {
  expect_wrong_types_named(tiny_released());
  expect_wrong_types_named(tiny_inference());
}

TEST(V32Config, EveryIntegerOutOfRangeIsNamedAsItIsSpelt) {
  const std::set<std::string> zero_is_fine = {"/num_nextn_predict_layers", "/original_seq_len", "/max_seq_len",
                                              "/max_position_embeddings"};
  for (const std::string& document : {tiny_released(), tiny_inference()}) {
    expect_integers_refused(document, kIntegersOutOfRange);
    expect_integers_refused(document, {"0", "-1"}, zero_is_fine);
  }
  expect_refused(with(tiny_released(), "/num_attention_heads", "0"),
                 {"num_attention_heads is 0", "from 1 to 16777216"});
}

TEST(V32Config, WhatIsNoNumberIsNoNumber) {
  for (const char* path : {"/rope_theta", "/rope_scaling/factor", "/rope_scaling/mscale", "/index_topk"}) {
    SCOPED_TRACE(path);
    expect_only_numbers(tiny_released(), path);
  }
}

TEST(V32Config, WithoutModelTypeKvLoraRankTells) {
  EXPECT_EQ(parse(without(tiny_released(), "/model_type")), named_v32("v32-tiny"));
  EXPECT_EQ(parse(without(tiny_inference(), "/model_type")), named_v32("v32-tiny"));
  const std::string v41 = without(config_json(named_v41("v41-tiny")), "/model_type");
  EXPECT_EQ(model_type(parse_text(v41)), "deepseek_v41");
  expect_refused(with(v41, "/kv_lora_rank", "128"), {"missing"});
}

TEST(V32Config, AnotherModelTypeIsRefused) {
  for (const char* type : {"deepseek_v3", "deepseek_v32_exp", "Deepseek_V32", "deepseek_v31", ""}) {
    const std::string quoted = "\"" + std::string(type) + "\"";
    for (const std::string& document : {tiny_released(), tiny_inference()}) {
      expect_refused(with(document, "/model_type", quoted), {"model_type is " + quoted, "\"deepseek_v32\""});
    }
  }
  expect_refused(with(tiny_inference(), "/model_type", "\"deepseek_v41\""), {"head_dim is missing"});
  expect_refused(with(released_json(named_v41("v41-tiny")), "/model_type", "\"deepseek_v32\""), {"text_config is"});
}

TEST(V32Config, OnlyYarnThatLeavesTheRotationItsLengthIsKnown) {
  const auto scaled = [](const char* key, const std::string& value) {
    return with(tiny_released(), std::string("/rope_scaling/") + key, value);
  };
  for (const char* key : {"type", "rope_type"}) {
    expect_refused(scaled(key, "\"linear\""), {"rope_scaling." + std::string(key), "linear", "yarn"});
  }
  expect_refused(scaled("mscale_all_dim", "0.707"), {"rope_scaling.mscale_all_dim is 0.707", "mscale, 1"});
  expect_refused(scaled("mscale", "0.707"), {"rope_scaling.mscale_all_dim is 1.0", "mscale, 0.707"});
  expect_refused(scaled("attention_factor", "0.5"), {"rope_scaling.attention_factor is 0.5"});
  EXPECT_EQ(parse(scaled("attention_factor", "1")), named_v32("v32-tiny"));
  EXPECT_EQ(parse(with(scaled("mscale", "0.707"), "/rope_scaling/mscale_all_dim", "0.707")).mscale, 0.707);
}

TEST(V32Config, ScalesAreUe8m0OrFloat32InBlocksOf128) {
  const std::string block = "/quantization_config/weight_block_size";
  for (const auto& [document, path] :
       {std::pair<std::string, std::string>{tiny_released(), "/quantization_config/scale_fmt"},
        {with(tiny_inference(), "/quantization_config", "{}"), "/scale_fmt"}}) {
    EXPECT_TRUE(parse(document).ue8m0_scales);
    for (const char* other : {"\"float32\"", "\"UE8M0\"", "\"\"", "false", "3"}) {
      expect_refused(with(document, path, other), {"scale_fmt is " + std::string(other)});
    }
    for (const char* shape : {"[32, 32]", "[1, 128]", "[128]", "[]"}) {
      expect_refused(with(document, block, shape), {"quantization_config.weight_block_size is ", "[128, 128]"});
    }
  }
  expect_refused(with(tiny_inference(), "/dtype", "\"int8\""), {"dtype is \"int8\"", "fp8", "bf16"});
}

/// A change to v32-tiny that breaks one rule, and what the message must hold.
struct Rule {
  void (*change)(V32Config&);
  std::vector<std::string> words;
};

constexpr int kLargest = 1 << 24;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_kept(const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    V32Config config = named_v32("v32-tiny");
    EXPECT_NO_THROW(validate(config));
    rule.change(config);
    const std::string message = expect_error(ErrorCode::bad_config, rule.words, [&] { validate(config); });
    EXPECT_TRUE(message.starts_with("config: ")) << message;
  }
}

TEST(V32ConfigRule, Shape) {
  expect_kept({
      {[](V32Config& c) { c.dim = 0; }, {"dim is 0", "16777216"}},
      {[](V32Config& c) { c.dim = std::int64_t{1} << 62; }, {"dim is 4611686018427387904", "16777216"}},
      {[](V32Config& c) { c.n_layers = 0; }, {"n_layers is 0", "4096"}},
      {[](V32Config& c) { c.n_layers = 4097; }, {"n_layers is 4097", "4096"}},
      {[](V32Config& c) { c.n_draft_layers = -1; }, {"n_draft_layers is -1", "1024"}},
      {[](V32Config& c) { c.n_draft_layers = 1025; }, {"n_draft_layers is 1025", "1024"}},
      {[](V32Config& c) { c.n_heads = -4; }, {"n_heads is -4"}},
      {[](V32Config& c) { c.q_lora_rank = 0; }, {"q_lora_rank is 0"}},
      {[](V32Config& c) { c.q_lora_rank = kLargest + 1; }, {"q_lora_rank is 16777217"}},
      {[](V32Config& c) { c.kv_lora_rank = 0; }, {"kv_lora_rank is 0"}},
      {[](V32Config& c) { c.kv_lora_rank = 192; }, {"kv_lora_rank is 192", "multiple of 128"}},
      {[](V32Config& c) { c.qk_nope_head_dim = 0; }, {"qk_nope_head_dim is 0"}},
      {[](V32Config& c) { c.qk_rope_head_dim = 0; }, {"qk_rope_head_dim is 0"}},
      {[](V32Config& c) { c.qk_rope_head_dim = 15; }, {"qk_rope_head_dim is 15", "multiple of 2"}},
      {[](V32Config& c) { c.v_head_dim = -32; }, {"v_head_dim is -32"}},
      {[](V32Config& c) { c.n_heads = kLargest, c.v_head_dim = kLargest; }, {"n_heads", "v_head_dim", "elements"}},
      {[](V32Config& c) { c.n_heads = c.q_lora_rank = kLargest; }, {"n_heads", "q_lora_rank is 16777216", "elements"}},
  });
}

TEST(V32ConfigRule, Rope) {
  expect_kept({
      {[](V32Config& c) { c.norm_eps = -1e-6; }, {"norm_eps is -1e-06"}},
      {[](V32Config& c) { c.norm_eps = std::nan(""); }, {"norm_eps is nan"}},
      {[](V32Config& c) { c.rope_theta = 0; }, {"rope_theta is 0"}},
      {[](V32Config& c) { c.rope_theta = kInfinity; }, {"rope_theta is inf"}},
      {[](V32Config& c) { c.rope_theta = 1; }, {"rope_theta is 1", "original_seq_len 16"}},
      {[](V32Config& c) { c.original_seq_len = -1; }, {"original_seq_len is -1"}},
      {[](V32Config& c) { c.rope_factor = 0; }, {"rope_factor is 0"}},
      {[](V32Config& c) { c.rope_factor = std::nan(""); }, {"rope_factor is nan"}},
      {[](V32Config& c) { c.beta_fast = 0; }, {"beta_fast is 0"}},
      {[](V32Config& c) { c.beta_slow = -kInfinity; }, {"beta_slow is -inf"}},
      {[](V32Config& c) { c.mscale = std::nan(""); }, {"mscale is nan"}},
  });
}

TEST(V32ConfigRule, Index) {
  expect_kept({
      {[](V32Config& c) { c.index_n_heads = 0; }, {"index_n_heads is 0"}},
      {[](V32Config& c) { c.index_n_heads = c.dim = kLargest; }, {"index_n_heads is 16777216", "dim", "elements"}},
      {[](V32Config& c) { c.index_head_dim = 0; }, {"index_head_dim is 0"}},
      {[](V32Config& c) { c.index_head_dim = -64; }, {"index_head_dim is -64"}},
      {[](V32Config& c) { c.index_head_dim = 96; }, {"index_head_dim is 96", "power of two"}},
      {[](V32Config& c) { c.index_head_dim = 256; }, {"index_head_dim is 256", "at most 128"}},
      {[](V32Config& c) { c.index_topk = 0; }, {"index_topk is 0"}},
      {[](V32Config& c) { c.qk_rope_head_dim = 66; }, {"qk_rope_head_dim is 66", "index_head_dim 64"}},
  });
}

TEST(V32ConfigLimits, AreAcceptedThemselves) {
  V32Config config = named_v32("v32-tiny");
  config.dim = config.index_topk = kLargest;
  config.n_layers = 4096;
  config.n_draft_layers = 1024;
  config.index_head_dim = config.qk_rope_head_dim = 128;
  config.norm_eps = config.mscale = 0;
  EXPECT_NO_THROW(validate(config));
  config.original_seq_len = 0;
  config.rope_theta = 1;
  EXPECT_NO_THROW(validate(config)) << "only YaRN asks for more";
}

TEST(V32Config, YarnBeginsBeyondTheContextItWasTrainedFor) {
  V32Config config = named_v32("v32");
  EXPECT_FALSE(config.uses_yarn(0));
  EXPECT_FALSE(config.uses_yarn(4096));
  EXPECT_TRUE(config.uses_yarn(4097));
  config.original_seq_len = 0;
  EXPECT_FALSE(config.uses_yarn(std::numeric_limits<std::int64_t>::max()));
}

}  // namespace
}  // namespace skim::test

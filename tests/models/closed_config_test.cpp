// Claims: a configuration is understood or refused. Every key of a published one passes; one that speaks of attention
// and is unknown is refused by name unless it says nothing; what contradicts itself is refused with both values; what
// is left out is assumed in one way, which is said.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/case_format.hpp"
#include "checkpoint/expect_error.hpp"
#include "models/config_text.hpp"
#include "models/published_configs.hpp"
#include "named_v32.hpp"
#include "named_v41.hpp"
#include "skim/config_fields.hpp"

namespace skim::test {
namespace {

const std::string kV32 = kPublishedV32, kV41 = kPublishedV41;

/// A key and a value, as JSON.
using Entry = std::pair<std::string, std::string>;

V32Config v32(const std::string& document) { return as_v32(parse_text(document)); }
V41Config v41(const std::string& document) { return as_v41(parse_text(document)); }

/// In place of the rope_scaling of a published configuration, and of its rope_theta.
std::string v32_rotated(const std::string& name, const std::string& section) {
  return with(without(without(kV32, "/rope_scaling"), "/rope_theta"), "/" + name, section);
}
std::string v41_rotated(const std::string& name, const std::string& section) {
  return with(without(without(kV41, "/text_config/rope_scaling"), "/text_config/rope_theta"), "/text_config/" + name,
              section);
}

TEST(PublishedConfigs, AreUnderstoodWithoutAssumptions) {
  V32Config released = v32(kV32);
  EXPECT_EQ(released.n_draft_layers, 1);
  released.n_draft_layers = 0;
  EXPECT_EQ(released, named_v32("v32"));
  EXPECT_EQ(v41(kV41), named_v41("v41-flash"));
  EXPECT_TRUE(assumed_of(kV32).empty());
  EXPECT_TRUE(assumed_of(kV41).empty());
  EXPECT_EQ(max_positions(parse_text(kV32)), 163840);
  EXPECT_EQ(max_positions(parse_text(kV41)), 1048576);
}

/// FAULTS 101, and its kind.
TEST(Fault101, AFieldThatChangesTheResultIsRefusedByName) {
  expect_refused(kRelabelledGlm5, {"indexer_rope_interleave is true", "expected false"});
  EXPECT_NO_THROW(parse_text(with(kRelabelledGlm5, "/indexer_rope_interleave", "false")));
  for (const Entry& entry : std::vector<Entry>{{"index_rope_interleaved", "true"},
                                               {"index_hadamard", "false"},
                                               {"latent_fp8", "false"},
                                               {"rope_interleave", "false"},
                                               {"attention_bias", "true"},
                                               {"q_head_norm", "3"},
                                               {"use_qk_norm", "true"},
                                               {"attn_logit_softcapping", "30.0"},
                                               {"Attention_Sinks", "4"},
                                               {"compress_ape", "\"x\""},
                                               {"sliding_window", "4096"},
                                               {"partial_rotary_factor", "0.5"},
                                               {"index_kpool", "4"},
                                               {"mla_use_nope", "true"},
                                               {"num_key_value_heads", "8"},
                                               {"qk_head_dim", "576"},
                                               {"layer_types", "[\"linear_attention\"]"},
                                               {"kv_cache_quantization", "{\"bits\": 4}"},
                                               {"attention_sinks", "1"},
                                               {"text_config", "{\"dim\": 7}"}}) {
    SCOPED_TRACE(entry.first);
    expect_refused(with(kV32, "/" + entry.first, entry.second), {entry.first + " is ", "expected"});
  }
  for (const Entry& entry : std::vector<Entry>{{"q_head_norm", "true"},
                                               {"num_key_value_heads", "8"},
                                               {"layer_types", "[\"sliding_attention\"]"},
                                               {"attention_bias", "true"},
                                               {"scale_fmt", "\"float32\""},
                                               {"index_topk_freq", "4"},
                                               {"indexer_rope_interleave", "true"}}) {
    SCOPED_TRACE(entry.first);
    expect_refused(with(kV41, "/text_config/" + entry.first, entry.second), {"text_config." + entry.first + " is "});
  }
}

TEST(Fault101, WhatSaysNothingIsNoField) {
  for (const char* value : {"null", "false", "0", "0.0", "1.0", "\"\"", "[]", "{}"}) {
    SCOPED_TRACE(value);
    EXPECT_EQ(v32(with(kV32, "/attention_novelty", value)), v32(kV32));
    EXPECT_EQ(v41(with(kV41, "/text_config/attention_novelty", value)), v41(kV41));
    EXPECT_EQ(v41(with(kV41, "/attention_novelty", value)), v41(kV41));
  }
  EXPECT_EQ(v32(with(kV32, "/attn_scale_factor", "1")), v32(kV32)) << "a factor";
  expect_refused(with(kV32, "/attn_novelty", "1"), {"attn_novelty is 1"});
  EXPECT_EQ(v32(with(kV32, "/novelty", "7")), v32(kV32)) << "does not speak of attention";
}

TEST(Fault101, OtherPartsOfAModelArePassedOver) {
  for (const char* key : {"vision_config", "engram_head_dim", "moe_router_bias", "dspark_markov_head", "topk_method",
                          "hc_sinkhorn_iters", "attention_dropout", "head_dim", "_attn_implementation"}) {
    EXPECT_EQ(v32(with(kV32, std::string("/") + key, "0.25")), v32(kV32)) << key;
  }
}

TEST(Fault101, FieldsBesideANestedConfigurationMustAgreeWithIt) {
  EXPECT_EQ(v41(with(kV41, "/rope_theta", "10000.0")), v41(kV41));
  expect_refused(with(kV41, "/rope_theta", "50000"), {"rope_theta is 50000", "text_config.rope_theta, 10000"});
  expect_refused(with(kV41, "/attn_window", "7"), {"attn_window is 7", "text_config"});
}

TEST(Fault101, QuantizationIsUnderstoodOrRefused) {
  const std::string section = "/quantization_config/";
  for (const Entry& entry : std::vector<Entry>{{"quant_method", "\"awq\""},
                                               {"activation_scheme", "\"static\""},
                                               {"fmt", "\"e5m2\""},
                                               {"kv_cache_scheme", "{\"num_bits\": 8}"},
                                               {"weight_block_size", "[64, 64]"},
                                               {"quantize_queries", "true"}}) {
    SCOPED_TRACE(entry.first);
    for (const std::string& document : {kV32, kV41}) {
      expect_refused(with(document, section + entry.first, entry.second), {"quantization_config." + entry.first});
    }
  }
  EXPECT_NO_THROW(parse_text(with(kV32, section + "modules_to_not_convert", "[\"lm_head\"]")));
  EXPECT_NO_THROW(parse_text(with(kV32, section + "kv_cache_scheme", "null")));
}

constexpr const char* kV32Section = R"({"rope_type": "yarn", "rope_theta": 10000, "factor": 40, "beta_fast": 32,
    "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.0, "truncate": true,
    "original_max_position_embeddings": 4096})";
constexpr const char* kV41Section = R"({"rope_type": "yarn", "rope_theta": 10000, "factor": 16, "beta_fast": 32,
    "beta_slow": 1, "attention_factor": 1.0, "original_max_position_embeddings": 65536})";

TEST(Fault102, RopeParametersAreRead) {
  EXPECT_EQ(v32(v32_rotated("rope_parameters", kV32Section)), v32(kV32));
  EXPECT_EQ(v41(v41_rotated("rope_parameters", kV41Section)), v41(kV41));
  EXPECT_EQ(v32(with(kV32, "/rope_parameters", kV32Section)), v32(kV32)) << "twice, and equal";
  const std::string beside = with(without(kV32, "/rope_scaling"), "/rope_parameters", kV32Section);
  EXPECT_EQ(v32(beside), v32(kV32)) << "beside rope_theta";
  EXPECT_EQ(v32(v32_rotated("rope_parameters", R"({"rope_theta": 8000000, "rope_type": "default"})")).original_seq_len,
            0);
  EXPECT_EQ(v32(v32_rotated("rope_parameters", R"({"rope_theta": 8000000})")).rope_theta, 8e6);
}

TEST(Fault102, PartsForLayersWithAndWithoutCompressionAreRead) {
  const std::string main = R"({"main": {"rope_theta": 10000, "rope_type": "default", "partial_rotary_factor": 0.125},
      "compress": {"rope_theta": 160000, "rope_type": "yarn", "type": "yarn", "factor": 16, "beta_fast": 32,
                   "beta_slow": 1, "original_max_position_embeddings": 65536, "partial_rotary_factor": 0.125,
                   "attention_factor": 1.0}})";
  const std::string document = without(v41_rotated("rope_parameters", main), "/text_config/compress_rope_theta");
  EXPECT_EQ(v41(document), v41(kV41));
  const std::string at = "/text_config/rope_parameters/";
  expect_refused(with(document, at + "main/rope_type", "\"yarn\""), {"rope_parameters.main.rope_type is \"yarn\""});
  expect_refused(with(document, at + "compress/partial_rotary_factor", "0.5"), {"partial_rotary_factor is 0.5"});
  expect_refused(with(document, at + "full", "{\"rope_theta\": 1}"), {"rope_parameters.full is "});
  expect_refused(with(document, "/text_config/compress_rope_theta", "40000"),
                 {"compress.rope_theta is 160000", "compress_rope_theta, 40000"});
  expect_refused(v32_rotated("rope_parameters", main), {"rope_parameters.main is "});
}

TEST(Fault102, SpellingsThatContradictOneAnotherAreRefusedWithBothValues) {
  const auto beside = [](const char* key, const char* value) {
    return with(with(kV32, "/rope_parameters", kV32Section), std::string("/rope_parameters/") + key, value);
  };
  expect_refused(beside("rope_theta", "8000000"), {"rope_parameters.rope_theta is 8000000", "rope_theta, 10000"});
  expect_refused(beside("factor", "4"), {"rope_parameters.factor is 4", "rope_scaling.factor, 40"});
  expect_refused(beside("beta_fast", "24"), {"rope_parameters.beta_fast is 24", "rope_scaling.beta_fast, 32"});
  expect_refused(beside("original_max_position_embeddings", "8192"), {"is 8192", "4096"});
  expect_refused(with(kV32, "/rope_parameters", R"({"rope_type": "default"})"),
                 {"rope_parameters.rope_type is \"default\"", "rope_scaling.type, \"yarn\""});
  expect_refused(with(kV32, "/rope_scaling/rope_type", "\"default\""),
                 {"rope_scaling.type is \"yarn\"", "rope_scaling.rope_type, \"default\""});
  expect_refused(with(kV32, "/dim", "4096"), {"dim is 4096", "hidden_size, 7168"});
  expect_refused(with(kV32, "/max_seq_len", "4096"), {"max_seq_len is 4096", "max_position_embeddings, 163840"});
  expect_refused(with(kV41, "/text_config/window_size", "64"), {"window_size is 64", "sliding_window, 128"});
  expect_refused(with(kV32, "/scale_fmt", "null"), {"scale_fmt is null", "quantization_config.scale_fmt, \"ue8m0\""});
}

TEST(Fault102, EveryParameterOfARotationIsUnderstoodOrRefused) {
  for (const Entry& entry : std::vector<Entry>{{"truncate", "false"},
                                               {"attention_factor", "1.3"},
                                               {"long_factor", "[1.0, 2.0]"},
                                               {"apply_yarn_scaling", "true"},
                                               {"novelty", "2"},
                                               {"original_max_position_embeddings", "0"}}) {
    SCOPED_TRACE(entry.first);
    expect_refused(with(kV32, "/rope_scaling/" + entry.first, entry.second), {"rope_scaling." + entry.first + " is "});
    expect_refused(with(kV41, "/text_config/rope_scaling/" + entry.first, entry.second),
                   {"rope_scaling." + entry.first + " is "});
  }
  expect_refused(with(kV41, "/text_config/rope_scaling/mscale", "0.707"), {"rope_scaling.mscale is 0.707"});
  expect_refused(v32_rotated("rope_parameters", R"({"rope_theta": 1e6, "rope_type": "default", "factor": 40})"),
                 {"rope_parameters.factor is 40"});
  expect_refused(v32_rotated("rope_parameters", R"({"rope_type": "yarn", "rope_theta": 1e4})"),
                 {"original_max_position_embeddings is missing"});
  expect_refused(v32_rotated("rope_parameters", "{\"rope_type\": \"yarn\"}"), {"rope_theta is missing"});
  for (const char* type : {"\"linear\"", "\"dynamic\"", "\"longrope\"", "\"Yarn\"", "7"}) {
    expect_refused(with(kV32, "/rope_scaling/type", type), {std::string("rope_scaling.type is ") + type});
  }
}

/// FAULTS 103: one answer, whether there is a quantization_config or not.
TEST(Fault103, ScalesArePowersOfTwoUnlessAConfigurationSaysOtherwise) {
  const std::string silent = without(kV32, "/quantization_config/scale_fmt");
  const std::string none = without(kV32, "/quantization_config");
  const std::string inference = without(kPublishedV32Inference, "/scale_fmt");
  for (const std::string& document : {silent, none, inference}) {
    EXPECT_TRUE(v32(document).ue8m0_scales);
    const std::vector<std::string> assumed = assumed_of(document);
    EXPECT_TRUE(std::any_of(assumed.begin(), assumed.end(),
                            [](const std::string& line) { return line.ends_with("scale_fmt: ue8m0"); }));
  }
  EXPECT_FALSE(v32(with(kV32, "/quantization_config/scale_fmt", "null")).ue8m0_scales) << "in so many words";
  EXPECT_FALSE(v32(with(kPublishedV32Inference, "/scale_fmt", "null")).ue8m0_scales);
}

/// docs/cases.md: what a recording leaves out has the published code's default.
TEST(Fault103, ARecordingThatSaysNothingHasFloat32Scales) {
  const std::string silent = without(config_json(named_v32("v32-tiny")), "/scale_fmt");
  EXPECT_FALSE(as_v32(parse_case_config("deepseek_v32", silent, "case")).ue8m0_scales);
  EXPECT_TRUE(as_v32(parse_case_config("deepseek_v32", config_json(named_v32("v32-tiny")), "case")).ue8m0_scales);
}

/// FAULTS 104: obeyed or refused.
TEST(Fault104, SharedSelectionsAreNotIgnored) {
  const std::string four = with(kV32, {{"/num_hidden_layers", "4"}, {"/num_nextn_predict_layers", "0"}});
  const auto said = [&](const char* key, const char* value) { return with(four, std::string("/") + key, value); };
  const std::vector<std::string> shared = {"indexer_types[1] is \"shared\"", "expected \"full\""};
  expect_refused(said("indexer_types", R"(["full", "shared", "full", "shared"])"), shared);
  expect_refused(said("index_topk_pattern", "\"FSFS\""), shared);
  expect_refused(with(said("index_topk_freq", "2"), "/index_skip_topk_offset", "1"), shared);
  expect_refused(said("index_topk_freq", "4"), {"indexer_types[2] is \"shared\""});
  for (const Entry& entry : std::vector<Entry>{{"indexer_types", R"(["full", "full", "full", "full"])"},
                                               {"index_topk_pattern", "\"FFFF\""},
                                               {"index_topk_freq", "1"},
                                               {"index_topk_freq", "null"},
                                               {"index_skip_topk_offset", "3"},
                                               {"index_share_for_mtp_iteration", "true"}}) {
    EXPECT_EQ(v32(with(four, "/" + entry.first, entry.second)), v32(four)) << entry.first;
  }
  expect_refused(said("indexer_types", R"(["full", "full"])"), {"indexer_types has 2 entries", "4 layers"});
  expect_refused(said("indexer_types", R"(["shared", "full", "full", "full"])"), {"indexer_types[0] is \"shared\""});
  expect_refused(said("indexer_types", R"(["full", "other", "full", "full"])"), {"indexer_types[1] is \"other\""});
  expect_refused(said("indexer_types", "[]"), {"indexer_types"});
  expect_refused(said("index_topk_pattern", "\"FFX\""), {"index_topk_pattern is \"FFX\""});
  expect_refused(said("index_topk_pattern", "\"FF\""), {"index_topk_pattern has 2 entries"});
  expect_refused(said("index_topk_freq", "0"), {"index_topk_freq is 0"});
  expect_refused(with(said("index_topk_freq", "2"), "/index_skip_topk_offset", "0"), {"index_skip_topk_offset is 0"});
}

TEST(Fault107, UsualSpellingsAreUnderstood) {
  EXPECT_EQ(v32(with(kV32, "/rope_scaling/type", "\"deepseek_yarn\"")), v32(kV32));
  const std::string plain = with(kV32, "/rope_scaling", R"({"type": "default"})");
  EXPECT_EQ(v32(plain), v32(without(kV32, "/rope_scaling")));
  EXPECT_EQ(v41(with(kV41, "/text_config/rope_scaling", R"({"rope_type": "default"})")).original_seq_len, 0);
  const std::string no_betas = without(without(kV32, "/rope_scaling/beta_fast"), "/rope_scaling/beta_slow");
  EXPECT_EQ(v32(no_betas), v32(kV32));
  EXPECT_EQ(assumed_of(no_betas),
            (std::vector<std::string>{"rope_scaling.beta_fast: 32", "rope_scaling.beta_slow: 1"}));
  const std::string v41_betas =
      without(without(kV41, "/text_config/rope_scaling/beta_fast"), "/text_config/rope_scaling/beta_slow");
  EXPECT_EQ(v41(v41_betas), v41(kV41));
}

TEST(Fault107, MessagesSpeakTheSpellingOfTheFile) {
  expect_refused(with(kV32, "/rms_norm_eps", "-1"), {"rms_norm_eps is -1"});
  expect_refused(with(kV41, "/text_config/rms_norm_eps", "2"), {"text_config.rms_norm_eps is 2"});
  expect_refused(with(kV32, "/quantization_config/weight_block_size", "[64, 128]"),
                 {"[64", "128]", "expected [128, 128]"});
  expect_refused(with(kV41, "/text_config/num_attention_heads", "60"),
                 {"text_config.num_attention_heads is 60", "multiple of 8", "text_config.o_groups"});
  expect_refused(with(kV41, "/text_config/qk_rope_head_dim", "258"),
                 {"text_config.qk_rope_head_dim is 258", "text_config.index_head_dim 128"});
  expect_refused(with(kV41, "/text_config/kv_source_layer_ids", "[2, 8, 14, 90]"),
                 {"text_config.kv_source_layer_ids names layer 90"});
  expect_refused(with(kV32, "/rope_scaling/factor", "1e300"), {"rope_scaling.factor is 1e+300"});
}

TEST(Configs, HostileNumbersDoNoHarm) {
  expect_hostile_numbers_harmless(kV32);
  expect_hostile_numbers_harmless(kPublishedV32Inference);
  expect_hostile_numbers_harmless(kV41);
  expect_hostile_numbers_harmless(config_json(named_v41("v41-tiny")));
}

/// FAULTS 130: one line of Python.
TEST(Fault130, AnInvalidConfigurationIsRefusedWhereverItIsTaken) {
  V41Config config = named_v41("v41-tiny");
  config.compress_ratios.clear();
  expect_error(ErrorCode::bad_config, {"compress_ratios has 0 entries"}, [&] { layer_role(config, 2); });
  V32Config other = named_v32("v32-tiny");
  other.kv_lora_rank = -1;
  expect_error(ErrorCode::bad_config, {"kv_lora_rank is -1"}, [&] { layer_role(other, 0); });
  expect_error(ErrorCode::bad_config, {"compress_ratios has 0 entries"}, [&] { config_json(config); });
}

TEST(ConfigDifferences, NameFieldsAndBothValues) {
  V32Config a = named_v32("v32"), b = a;
  const auto names = [&](std::int64_t context) {
    std::string text;
    for (const ConfigDifference& difference : config_differences(a, b, context)) {
      text += difference.name + " " + difference.first + " " + difference.second + ";";
    }
    return text;
  };
  b.n_draft_layers = 1, b.weight_type = WeightType::bf16, b.max_positions = 64;
  EXPECT_EQ(names(163840), "");
  b.original_seq_len = 0;
  EXPECT_EQ(names(4096), "") << "no YaRN in either";
  EXPECT_EQ(names(4097), "original_seq_len 4096 0;");
  b = a, b.rope_theta = 1e6, b.ue8m0_scales = false;
  EXPECT_EQ(names(1), "rope_theta 10000 1000000;ue8m0_scales true false;");
  EXPECT_EQ(config_differences(a, named_v41("v41-tiny"), 1).at(0).name, "model_type");
  V41Config c = named_v41("v41-tiny"), d = c;
  d.compress_ratios.pop_back(), d.n_draft_layers = 0;
  EXPECT_TRUE(config_differences(c, d, 1).empty());
}

TEST(ConfigFields, AreEveryMemberByItsName) {
  Config config = named_config("v32-tiny");
  const std::vector<ConfigField> fields = config_fields(config);
  const auto dim = std::find_if(fields.begin(), fields.end(), [](const ConfigField& f) { return f.name == "dim"; });
  ASSERT_NE(dim, fields.end());
  *std::get<std::int64_t*>(dim->value) = 256;
  EXPECT_EQ(hidden_dim(config), 256);
  EXPECT_EQ(dim->text(), "256");
}

}  // namespace
}  // namespace skim::test

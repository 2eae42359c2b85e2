// Claims: both spellings of a configuration give the same V41Config; whatever is missing, of the wrong type, out of
// range or of another model is refused in a message that names the field.
#include <gtest/gtest.h>

#include <set>

#include "cases.hpp"
#include "checkpoint/expect_error.hpp"
#include "models/config_text.hpp"
#include "named_v41.hpp"
#include "skim/config_fields.hpp"
#include "skim/safetensors.hpp"

namespace skim::test {
namespace {

const std::string kReleased = R"({
  "architectures": ["DeepseekV41ForConditionalGeneration"],
  "model_type": "deepseek_v41",
  "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "scale_fmt": "ue8m0", "weight_block_size": [32, 32]},
  "text_config": {
    "hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 64, "head_dim": 512, "qk_rope_head_dim": 64,
    "q_lora_rank": 1280, "o_groups": 8, "o_lora_rank": 1024, "sliding_window": 128, "rms_norm_eps": 1e-20,
    "rope_theta": 10000, "compress_rope_theta": 160000,
    "rope_scaling": {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                     "original_max_position_embeddings": 65536},
    "compress_ratios": [0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
    "kv_source_layer_ids": [2, 8, 14, 20], "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
    "index_n_heads": 32, "index_head_dim": 128, "index_topk": 512,
    "candidate_source_layer_id": 20, "candidate_topk_blocks": 2048, "candidate_block_size": 8,
    "num_nextn_predict_layers": 3, "max_position_embeddings": 1048576
  }
})";

V41Config parse(const std::string& document) { return as_v41(parse_text(document)); }

std::string tiny_released() { return released_json(named_v41("v41-tiny")); }
std::string tiny_inference() { return config_json(named_v41("v41-tiny")); }

/// Fields that need not be there.
const std::set<std::string> kOptional = {"/text_config/model_type",
                                         "/text_config/num_nextn_predict_layers",
                                         "/text_config/max_position_embeddings",
                                         "/text_config/rope_scaling",
                                         "/text_config/rope_scaling/type",
                                         "/text_config/rope_scaling/beta_fast",
                                         "/text_config/rope_scaling/beta_slow",
                                         "/text_config/candidate_source_layer_id",
                                         "/n_mtp_layers",
                                         "/max_seq_len",
                                         "/beta_fast",
                                         "/beta_slow",
                                         "/candidate_source_layer",
                                         "/dtype"};

TEST(Config, TheReleasedModelIsV41Flash) {
  const V41Config config = as_v41(parse_config(kReleased, "config.json"));
  EXPECT_EQ(config, named_v41("v41-flash"));
  EXPECT_EQ(config.n_layers, 40);
  EXPECT_EQ(config.n_draft_layers, 3);
  EXPECT_EQ(config.compress_ratios.size(), 43u);
}

TEST(Config, RecordedInferenceSpellingEqualsTheReleasedOne) {
  const std::string path = case_path("v41-flash-layers");
  const std::string text = SafetensorsFile::open(path).metadata().at("config");
  const V41Config recorded = as_v41(parse_config(text, "config"));
  EXPECT_EQ(recorded, parse(with(kReleased, {{"/text_config/candidate_topk_blocks", "100"},
                                             {"/text_config/max_position_embeddings", "4096"}})));
  V41Config flash = named_v41("v41-flash");
  flash.candidate_topk_blocks = 100;
  flash.max_positions = 4096;
  EXPECT_EQ(recorded, flash);
}

TEST(Config, BothSpellingsGiveTheConfigurationBack) {
  V41Config plain = named_v41("v41-tiny");
  plain.original_seq_len = 0;
  plain.rope_factor = 1;
  plain.candidate_source_layer = -1;
  plain.candidate_topk_blocks = plain.candidate_block_size = 0;
  for (const V41Config& config : {named_v41("v41-tiny"), named_v41("v41-flash"), plain}) {
    EXPECT_EQ(parse(released_json(config)), config);
    EXPECT_EQ(parse(part(released_json(config), "/text_config")), config) << "not nested";
    EXPECT_EQ(parse(config_json(config)), config);
  }
  V41Config bf16_weights = named_v41("v41-tiny");
  bf16_weights.weight_type = WeightType::bf16;
  EXPECT_EQ(parse(config_json(bf16_weights)), bf16_weights);
}

TEST(Config, UnknownNameListsTheNamesThereAre) {
  expect_error(ErrorCode::invalid_argument, {"'v41'", "v41-flash", "v41-tiny"}, [] { named_v41("v41"); });
}

TEST(Config, IntegersMayBeWrittenWithAPoint) {
  EXPECT_EQ(parse(with(tiny_inference(), "/dim", "128.0")), named_v41("v41-tiny"));
}

TEST(Config, EveryRequiredFieldIsNamedIfItIsMissing) {
  expect_missing_fields_named(tiny_released(), kOptional);
  expect_missing_fields_named(without(tiny_inference(), "/model_type"), kOptional);
}

TEST(Config, EveryFieldOfTheWrongTypeIsNamed) {
  expect_wrong_types_named(tiny_released());
  expect_wrong_types_named(tiny_inference());
}

TEST(Config, EveryIntegerOutOfRangeIsNamed) {
  expect_integers_refused(tiny_released(), kIntegersOutOfRange);
  expect_integers_refused(tiny_inference(), kIntegersOutOfRange);
}

TEST(Config, EverySizeOfZeroOrLessIsNamed) {
  const std::string document = tiny_inference();
  expect_integers_refused(document, {"0", "-1"},
                          {"/candidate_source_layer", "/original_seq_len", "/n_mtp_layers", "/max_seq_len"});
  for (const char* key : {"original_seq_len", "n_mtp_layers", "max_seq_len"}) {
    expect_refused(with(document, std::string("/") + key, "-1"), {std::string(key) + " is -1"});
  }
  EXPECT_EQ(parse(with(document, "/candidate_source_layer", "-1")).candidate_source_layer, -1);
}

TEST(Config, WhatIsNoNumberIsNoNumber) { expect_only_numbers(tiny_inference(), "/rope_theta"); }

TEST(Config, NumbersThatTurnIntoNanInFloat32AreRefused) {
  for (const char* path : {"/rope_theta", "/rope_factor"}) {
    for (const char* value : {"1e-308", "1e-60"}) {
      SCOPED_TRACE(testing::Message() << path << " = " << value);
      expect_refused(with(tiny_inference(), path, value), {std::string(path).substr(1)});
    }
  }
}

TEST(Config, HugeListsAreRefusedInAShortMessage) {
  constexpr int kMany = 1'000'000;
  std::string twos = "[2", ascending = "[2";
  for (int i = 1; i < kMany; ++i) {
    twos += ",2";
    ascending += "," + std::to_string(i + 2);
  }
  twos += "]", ascending += "]";
  expect_refused(with(tiny_inference(), "/compress_ratios", twos),
                 {"compress_ratios has 1000000 entries", "1031", "1024 draft layers"});
  expect_refused(with(tiny_inference(), "/index_source_layers", ascending), {"index_source_layers"});
  expect_refused(with(tiny_inference(), "/kv_source_layers", twos), {"kv_source_layers", "ascending"});
}

TEST(Config, EveryTruncatedDocumentIsRefused) {
  const std::string text = tiny_released();
  for (std::size_t length = 0; length < text.size(); ++length) {
    SCOPED_TRACE(length);
    expect_error(ErrorCode::bad_config, {"x.json: "}, [&] { parse_config(text.substr(0, length), "x.json"); });
  }
  for (const char* other : {"[]", "null", "7", "\"deepseek_v41\"", "{}", R"({"text_config": {}})"}) {
    SCOPED_TRACE(other);
    expect_error(ErrorCode::bad_config, {"x.json"}, [&] { parse_config(other, "x.json"); });
  }
}

TEST(Config, OnlyYarnScalesTheRotation) {
  for (const char* key : {"type", "rope_type"}) {
    const std::string path = std::string("/text_config/rope_scaling/") + key;
    expect_refused(with(tiny_released(), path, "\"linear\""), {"rope_scaling." + std::string(key), "linear", "yarn"});
  }
  const V41Config none = parse(without(tiny_released(), "/text_config/rope_scaling"));
  EXPECT_EQ(none.original_seq_len, 0);
}

TEST(Config, UnknownWeightTypeIsRefused) {
  expect_refused(with(tiny_inference(), "/dtype", "\"fp4\""), {"dtype", "fp4", "fp8", "bf16"});
}

TEST(Config, OnlyScaleBlocksOf32AreKnown) {
  for (const char* parent : {"/quantization_config", "/text_config/quantization_config"}) {
    const auto blocks = [&](const std::string& shape) {
      return with(tiny_released(), parent, "{\"weight_block_size\": " + shape + "}");
    };
    EXPECT_EQ(parse(blocks("[32, 32]")), named_v41("v41-tiny"));
    EXPECT_EQ(parse(blocks("null")), named_v41("v41-tiny"));
    for (const char* other : {"[128, 128]", "[32, 128]", "[32]", "[]", "32", "\"32x32\""}) {
      SCOPED_TRACE(other);
      expect_refused(blocks(other), {"quantization_config.weight_block_size is ", "expected [32, 32]"});
    }
  }
  expect_refused(with(tiny_inference(), "/quantization_config", R"({"weight_block_size": [128, 128]})"),
                 {"weight_block_size", "[32, 32]"});
}

TEST(Fault19, UnknownModelTypeIsRefused) {
  for (const char* type : {"deepseek41", "deepseek_v41x", "deepseek_v31", "Deepseek_V41", ""}) {
    const std::string quoted = "\"" + std::string(type) + "\"";
    expect_refused(with(tiny_released(), "/model_type", quoted), {"model_type", quoted, "\"deepseek_v41\""});
    expect_refused(with(tiny_released(), "/text_config/model_type", quoted), {"text_config.model_type", quoted});
    expect_refused(with(tiny_inference(), "/model_type", quoted), {"model_type", quoted});
  }
  // V4 by its name, but the text of V4.1.
  expect_refused(with(tiny_released(), "/text_config/model_type", "\"deepseek_v4\""), {"text_config.model_type"});
  EXPECT_NO_THROW(parse(without(tiny_inference(), "/model_type")));
}

TEST(Fault27, AttentionFactorMustNotScaleTheRotation) {
  const std::string path = "/text_config/rope_scaling/attention_factor";
  expect_refused(with(tiny_released(), path, "0.5"), {"rope_scaling.attention_factor", "0.5"});
  expect_refused(with(tiny_released(), path, "\"1\""), {"rope_scaling.attention_factor"});
  EXPECT_EQ(parse(with(tiny_released(), path, "null")), parse(tiny_released()));
  EXPECT_EQ(parse(with(tiny_released(), path, "1.0")), parse(tiny_released()));
  EXPECT_EQ(parse(with(tiny_released(), path, "1")), parse(tiny_released()));
}

TEST(Fault27, AMissingThetaIsNoDefault) {
  expect_refused(without(tiny_released(), "/text_config/compress_rope_theta"),
                 {"text_config.compress_rope_theta is missing"});
  expect_refused(without(tiny_inference(), "/compress_rope_theta"), {"compress_rope_theta is missing"});
}

TEST(Fault71, RatiosBeyondTheLayersBelongToDraftLayers) {
  const std::string released = without(tiny_released(), "/text_config/num_nextn_predict_layers");
  const std::string inference = without(tiny_inference(), "/n_mtp_layers");
  const std::pair<int, const char*> rows[] = {
      {0, "[0, 0, 2, 2, 1, 1, 1]"}, {1, "[0, 0, 2, 2, 1, 1, 1, 0]"}, {3, "[0, 0, 2, 2, 1, 1, 1, 0, 0, 0]"}};
  for (const auto& [drafts, ratios] : rows) {
    for (const V41Config& config : {parse(with(released, "/text_config/compress_ratios", ratios)),
                                    parse(with(inference, "/compress_ratios", ratios))}) {
      EXPECT_EQ(config.n_layers, 7);
      EXPECT_EQ(config.n_draft_layers, drafts);
      EXPECT_EQ(config.layer_count(), 7 + drafts);
      EXPECT_EQ(config.compress_ratios.size(), 7u + static_cast<std::size_t>(drafts));
    }
  }
}

TEST(Fault71, DraftLayersThatAreOnlyCountedHaveRatioZero) {
  const V41Config config = parse(with(tiny_released(), {{"/text_config/num_nextn_predict_layers", "2"},
                                                        {"/text_config/compress_ratios", "[0, 0, 2, 2, 1, 1, 1]"}}));
  EXPECT_EQ(config.n_draft_layers, 2);
  EXPECT_EQ(config.ratio(8), 0);
}

TEST(Fault71, FewerRatiosThanLayersAreRefused) {
  const char* ratios = "[0, 0, 2, 2, 1]";
  expect_refused(with(tiny_released(), "/text_config/compress_ratios", ratios), {"compress_ratios", "5", "7"});
  expect_refused(with(tiny_inference(), "/compress_ratios", ratios), {"compress_ratios has 5 entries", "(7 layers"});
  expect_refused(with(tiny_inference(), "/compress_ratios", "[]"), {"compress_ratios has 0 entries"});
}

TEST(Fault71, DraftLayersDoNotCompress) {
  expect_refused(with(tiny_inference(), "/compress_ratios", "[0, 0, 2, 2, 1, 1, 1, 0, 2]"),
                 {"compress_ratios[8] is 2", "7"});
}

}  // namespace
}  // namespace skim::test

// Configurations of V4: what is read, and what is refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/config_text.hpp"
#include "skim/cache.hpp"
#include "skim/config.hpp"
#include "skim/error.hpp"

namespace skim::test {
namespace {

Config read(const std::string& document) { return parse_config(document, "config.json"); }

/// The message of the error; empty if there is none.
std::string refusal(const std::string& document) {
  try {
    read(document);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& old_part, const std::string& new_part) {
  const std::size_t place = text.find(old_part);
  EXPECT_NE(place, std::string::npos) << old_part;
  return place == std::string::npos ? text : text.replace(place, old_part.size(), new_part);
}

TEST(V4Config, ReleasedDocumentsAreReadBack) {
  for (const char* name : {"v4-flash", "v4-pro", "v4-tiny"}) {
    EXPECT_EQ(read(released_json(named_config(name))), named_config(name)) << name;
  }
}

TEST(V4Config, RatioOneIsRefused) {
  const std::string document = replaced(released_json(named_config("v4-tiny")), "[0,4,16,4,5,0]", "[1,4,16,4,5,0]");
  EXPECT_NE(refusal(document).find("compress_ratios[0] is 1"), std::string::npos) << refusal(document);
}

TEST(V4Config, RatiosBeyondTheLayersCountDraftLayers) {
  const std::string document = replaced(released_json(named_config("v4-tiny")), "[0,4,16,4,5,0]", "[0,4,16,4,5,0,0,0]");
  EXPECT_EQ(layer_count(read(document)), 8);
}

TEST(V4Config, LayerTypesAreRatiosInOtherWords) {
  const std::string types = R"("layer_types":["sliding_attention","compressed_sparse_attention",)"
                            R"("heavily_compressed_attention","compressed_sparse_attention","sliding_attention"],)"
                            R"("compress_rates":{"compressed_sparse_attention":4,"heavily_compressed_attention":16})";
  const std::string document =
      replaced(released_json(named_config("v4-tiny")), "\"compress_ratios\":[0,4,16,4,5,0]", types);
  const std::vector<int> want = {0, 4, 16, 4, 0, 0};  // and a draft layer
  EXPECT_EQ(std::get<V4Config>(read(document)).compress_ratios, want);
  EXPECT_NE(refusal(replaced(document, "sliding_attention", "full_attention")).find("layer_types[0]"),
            std::string::npos);
}

TEST(V4Config, UnknownFieldsOfAttentionAreRefused) {
  const std::string document = replaced(released_json(named_config("v4-tiny")), "{", R"({"attention_window_step":3,)");
  EXPECT_NE(refusal(document).find("attention_window_step"), std::string::npos);
}

/// A token of context takes 3,509 bytes in V4-Flash and 5,024 in V4-Pro.
TEST(V4Config, CacheCostIsThatOfTheReleasedShapes) {
  for (const auto& [name, bytes] : {std::pair{"v4-flash", 3509.0}, {"v4-pro", 5024.0}}) {
    const Config config = named_config(name);
    double total = 0;
    for (int layer = 0; layer < backbone_layers(config); ++layer) {
      total += cache_cost(config, std::vector{layer}).bytes_per_token;
    }
    EXPECT_NEAR(total, bytes, bytes / 100) << name;
  }
}

}  // namespace
}  // namespace skim::test

// Claims: every layer knows its role and the layers it depends on, whatever the order of ratios.
#include <gtest/gtest.h>

#include "checkpoint/expect_error.hpp"
#include "named_v32.hpp"
#include "named_v41.hpp"
#include "skim/config.hpp"

namespace skim::test {
namespace {

struct Expected {
  Role role;
  int ratio, kv_source, index_source, candidate_source;
};

void expect_role(const V41Config& config, int layer, const Expected& want) {
  SCOPED_TRACE(testing::Message() << "layer " << layer);
  const LayerRole role = layer_role(config, layer);
  EXPECT_EQ(role_name(role.role), role_name(want.role));
  EXPECT_EQ(role.ratio, want.ratio);
  EXPECT_EQ(role.kv_source, want.kv_source);
  EXPECT_EQ(role.index_source, want.index_source);
  EXPECT_EQ(role.candidate_source, want.candidate_source);
  EXPECT_EQ(role.is_candidate_source, layer == config.candidate_source_layer);
}

constexpr Expected kWindowOnly = {Role::window_only, 0, -1, -1, -1};

TEST(LayerRoles, OfTheReleasedModel) {
  const V41Config config = named_v41("v41-flash");
  for (const int layer : {0, 1, 40, 41, 42}) expect_role(config, layer, kWindowOnly);
  for (const int source : {2, 8, 14}) {
    expect_role(config, source, {Role::full, 2, source, source, -1});
    for (int layer = source + 1; layer < source + 6; ++layer) {
      expect_role(config, layer, {Role::reuse, 2, source, source, -1});
    }
  }
  expect_role(config, 20, {Role::full, 1, 20, 20, -1});
  for (int layer = 21; layer < 24; ++layer) expect_role(config, layer, {Role::reuse, 1, 20, 20, -1});
  for (const int source : {24, 28, 32, 36}) {
    expect_role(config, source, {Role::reindex, 1, 20, source, 20});
    for (int layer = source + 1; layer < source + 4; ++layer) {
      expect_role(config, layer, {Role::reuse, 1, 20, source, -1});
    }
  }
}

TEST(LayerRoles, OfTheTinyModel) {
  const V41Config config = named_v41("v41-tiny");
  for (const int layer : {0, 1, 7}) expect_role(config, layer, kWindowOnly);
  expect_role(config, 2, {Role::full, 2, 2, 2, -1});
  expect_role(config, 3, {Role::reuse, 2, 2, 2, -1});
  expect_role(config, 4, {Role::full, 1, 4, 4, -1});
  expect_role(config, 5, {Role::reindex, 1, 4, 5, 4});
  expect_role(config, 6, {Role::reuse, 1, 4, 5, -1});
}

TEST(LayerRoles, RatioOneMayComeBeforeRatioTwo) {
  V41Config config = named_v41("v41-tiny");
  config.compress_ratios = {1, 1, 1, 0, 2, 2, 2, 0};
  config.kv_source_layers = {0, 4};
  config.index_source_layers = {0, 2, 4, 6};
  config.candidate_source_layer = -1;
  validate(config);
  expect_role(config, 0, {Role::full, 1, 0, 0, -1});
  expect_role(config, 1, {Role::reuse, 1, 0, 0, -1});
  expect_role(config, 2, {Role::reindex, 1, 0, 2, -1});
  expect_role(config, 3, kWindowOnly);
  expect_role(config, 4, {Role::full, 2, 4, 4, -1});
  expect_role(config, 5, {Role::reuse, 2, 4, 4, -1});
  expect_role(config, 6, {Role::reindex, 2, 4, 6, -1});
}

TEST(LayerRoles, ASourceHasTheRatioOfTheLayer) {
  V41Config config = named_v41("v41-tiny");
  config.compress_ratios = {2, 1, 2, 2, 1, 2, 0, 0};
  config.kv_source_layers = {0, 1};
  config.index_source_layers = {0, 1, 2, 4, 5};
  config.candidate_source_layer = -1;
  validate(config);
  expect_role(config, 2, {Role::reindex, 2, 0, 2, -1});
  expect_role(config, 3, {Role::reuse, 2, 0, 2, -1});
  expect_role(config, 4, {Role::reindex, 1, 1, 4, -1});
  expect_role(config, 5, {Role::reindex, 2, 0, 5, -1});
}

TEST(LayerRoles, CandidatesBoundEveryLaterSelector) {
  V41Config config = named_v41("v41-tiny");
  config.compress_ratios = {2, 2, 2, 2, 2, 2, 2, 0};
  config.kv_source_layers = {0, 4};
  config.index_source_layers = {0, 2, 4, 5};
  config.candidate_source_layer = 2;
  validate(config);
  expect_role(config, 0, {Role::full, 2, 0, 0, -1});
  expect_role(config, 2, {Role::reindex, 2, 0, 2, -1});
  expect_role(config, 4, {Role::full, 2, 4, 4, 2});
  expect_role(config, 5, {Role::reindex, 2, 4, 5, 2});
}

TEST(LayerRoles, OfV32AreAllFull) {
  V32Config config = named_v32("v32");
  config.n_draft_layers = 1;
  for (int layer = 0; layer < 62; ++layer) {
    const LayerRole role = layer_role(config, layer);
    EXPECT_EQ(role.role, Role::full) << layer;
    EXPECT_EQ(role.ratio, 1) << layer;
    EXPECT_EQ(role.kv_source, layer);
    EXPECT_EQ(role.index_source, layer);
    EXPECT_EQ(role.candidate_source, -1) << layer;
    EXPECT_FALSE(role.is_candidate_source) << layer;
  }
  for (const int layer : {-1, 62}) {
    expect_error(ErrorCode::invalid_argument, {"layer " + std::to_string(layer), "0 to 61"},
                 [&] { layer_role(config, layer); });
  }
}

TEST(LayerRoles, ALayerThatDoesNotExistIsRefused) {
  const V41Config config = named_v41("v41-tiny");
  for (const int layer : {-1, 8, 2147483647, -2147483647 - 1}) {
    expect_error(ErrorCode::invalid_argument, {"layer " + std::to_string(layer), "0 to 7"},
                 [&] { layer_role(config, layer); });
  }
}

TEST(LayerOfTensor, GoesByTheWholePrefix) {
  const V41Config config = named_v41("v41-flash");
  EXPECT_EQ(layer_of_tensor(config, "layers.7.attn.wq_a.weight"), 7);
  EXPECT_EQ(layer_of_tensor(config, "layers.39.attn.indexer.wq_b.scale"), 39);
  EXPECT_EQ(layer_of_tensor(config, "layers.3.attn.wq_a.weight"), 3);
  EXPECT_EQ(layer_of_tensor(config, "mtp.0.attn.attn_sink"), 40);
  EXPECT_EQ(layer_of_tensor(config, "mtp.2.attn.attn_sink"), 42);
  for (const char* other :
       {"layers.40.attn.wkv.weight", "mtp.3.attn.attn_sink", "layers.7.ffn.w1.weight", "", "layers.07.attn.attn_sink",
        "layers.-1.attn.attn_sink", "xlayers.7.attn.attn_sink", "embed.weight", "layers.7.attn"}) {
    EXPECT_EQ(layer_of_tensor(config, other), -1) << other;
  }
}

}  // namespace
}  // namespace skim::test

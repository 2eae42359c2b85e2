// Claims: V3.2 weights are found under the names that released checkpoints have, in every form they may have on disk;
// tensors that are missing, of the wrong shape or dtype, or of no use are found and named.
#include <gtest/gtest.h>

#include <array>

#include "cases.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/expect_error.hpp"
#include "kernels/every_set.hpp"
#include "models/config_text.hpp"
#include "models/v32/weights.hpp"
#include "named_v32.hpp"
#include "named_v41.hpp"
#include "skim/config_fields.hpp"

namespace skim::test {
namespace {

namespace fs = std::filesystem;
using Kind = TensorProblem::Kind;
using Shape = std::vector<std::int64_t>;

/// Two layers and a draft layer.
V32Config tiny(WeightType type = WeightType::fp8) {
  V32Config config = named_v32("v32-tiny");
  config.n_draft_layers = 1;
  config.weight_type = type;
  return config;
}

std::string name_in(int layer, const std::string& name) {
  return "model.layers." + std::to_string(layer) + ".self_attn." + name;
}

TEST(V32Names, AreThoseOfTheReleasedCheckpoint) {
  const std::map<std::string, Shape> fp8 = {{"q_a_proj", {1536, 7168}},          {"q_b_proj", {24576, 1536}},
                                            {"kv_a_proj_with_mqa", {576, 7168}}, {"kv_b_proj", {32768, 512}},
                                            {"o_proj", {7168, 16384}},           {"indexer.wq_b", {8192, 1536}},
                                            {"indexer.wk", {128, 7168}}};
  const std::map<std::string, Shape> scales = {
      {"q_a_proj", {12, 56}}, {"q_b_proj", {192, 12}},    {"kv_a_proj_with_mqa", {5, 56}}, {"kv_b_proj", {256, 4}},
      {"o_proj", {56, 128}},  {"indexer.wq_b", {64, 12}}, {"indexer.wk", {1, 56}}};
  const std::map<std::string, Shape> bf16 = {{"q_a_layernorm.weight", {1536}},
                                             {"kv_a_layernorm.weight", {512}},
                                             {"indexer.k_norm.weight", {128}},
                                             {"indexer.weights_proj.weight", {64, 7168}},
                                             {"indexer.k_norm.bias", {128}}};
  V32Config config = named_v32("v32");
  config.n_draft_layers = 1;
  std::map<std::string, std::pair<DType, Shape>> want, got;
  for (int layer = 0; layer < 62; ++layer) {
    for (const auto& [name, shape] : fp8) want[name_in(layer, name + ".weight")] = {DType::f8_e4m3, shape};
    for (const auto& [name, shape] : scales) want[name_in(layer, name + ".weight_scale_inv")] = {DType::f32, shape};
    for (const auto& [name, shape] : bf16) want[name_in(layer, name)] = {DType::bf16, shape};
  }
  for (const TensorInfo& info : Checkpoint::synthetic(config).tensors()) got[info.name] = {info.dtype, info.shape};
  EXPECT_EQ(got.size(), 62u * 19u);
  EXPECT_TRUE(got == want);
  EXPECT_TRUE(Checkpoint::synthetic(config).problems(all_layers(config)).empty());
}

TEST(V32Names, LayersAreCountedOnIntoTheDraft) {
  V32Config config = named_v32("v32");
  EXPECT_EQ(layer_of_tensor(config, "model.layers.60.self_attn.o_proj.weight"), 60);
  EXPECT_EQ(layer_of_tensor(config, "model.layers.61.self_attn.o_proj.weight"), -1);
  config.n_draft_layers = 1;
  EXPECT_EQ(layer_of_tensor(config, "model.layers.61.self_attn.o_proj.weight"), 61);
  EXPECT_EQ(layer_of_tensor(config, "model.layers.7.self_attn.indexer.k_norm.bias"), 7);
  EXPECT_EQ(layer_of_tensor(config, "model.layers.0.self_attn.q_a_proj.weight_scale_inv"), 0);
  for (const char* other :
       {"model.layers.62.self_attn.o_proj.weight", "model.layers.07.self_attn.o_proj.weight",
        "model.layers.-1.self_attn.o_proj.weight", "model.layers.7.self_attn", "model.layers.7.mlp.gate.weight",
        "model.layers.61.eh_proj.weight", "layers.7.self_attn.o_proj.weight", "layers.7.attn.wq_a.weight",
        "mtp.0.attn.wq_a.weight", "mtp.0.self_attn.o_proj.weight", "model.layers..self_attn.o_proj.weight",
        "model.layers.7x.self_attn.o_proj.weight", "model.embed_tokens.weight", "lm_head.weight", ""}) {
    EXPECT_EQ(layer_of_tensor(config, other), -1) << other;
  }
}

class V32Checkpoint : public testing::Test {
 protected:
  const fs::path& folder() const { return temporary_.path(); }
  Checkpoint saved() const { return save(folder(), config_, tensors_); }
  std::vector<TensorProblem> problems() const { return saved().problems(std::array{0, 1, 2}); }
  std::string model_error(const std::vector<std::string>& words) const {
    const Checkpoint checkpoint = saved();
    return expect_error(ErrorCode::tensor_mismatch, words, [&] { Model{checkpoint}; });
  }
  /// `name` with zeros of another dtype.
  void recast(const std::string& name, DType dtype) {
    StoredTensor& tensor = tensors_.at(name);
    std::int64_t bits = dtype_bits(dtype);
    for (const std::int64_t extent : tensor.shape) bits *= extent;
    tensor = {dtype, tensor.shape, std::vector<std::byte>(static_cast<std::size_t>(bits / 8))};
  }

  TemporaryFolder temporary_;
  V32Config config_ = tiny();
  Checkpoint synthetic_ = Checkpoint::synthetic(config_);
  TensorMap tensors_ = tensors_of(synthetic_);
};

TEST_F(V32Checkpoint, AFolderWithOneFileOrWithShardsIsTheSame) {
  write_shards(folder(), config_, tensors_);
  expect_same_checkpoint(Checkpoint::open(folder()), synthetic_);
  fs::remove(folder() / kIndex);
  expect_same_checkpoint(saved(), synthetic_);
}

TEST_F(V32Checkpoint, LayersNeedOnlyTheirOwnShards) {
  write_shards(folder(), config_, tensors_);
  fs::remove(folder() / shard_name(0));
  const Checkpoint checkpoint = Checkpoint::open(folder());
  for (const int layer : {1, 2}) {
    SCOPED_TRACE(layer);
    EXPECT_TRUE(checkpoint.problems(std::array{layer}).empty());
    expect_same_outputs(outputs(checkpoint, {.layers = {layer}}), outputs(synthetic_, {.layers = {layer}}));
  }
  expect_error(ErrorCode::io, {shard_name(0)}, [&] { Model{checkpoint}; });
}

TEST_F(V32Checkpoint, RecordedCasesAreWholeAndTheSameAsFolders) {
  for (const auto& [file, tensors] : {std::pair{"v32-tiny-bf16", 12u}, {"v32-tiny-fp8", 19u}}) {
    SCOPED_TRACE(file);
    const Checkpoint recorded = Checkpoint::open(case_path(file));
    EXPECT_EQ(recorded.tensors().size(), tensors);
    EXPECT_TRUE(recorded.problems(std::array{0}).empty());
    write_tensors(folder() / "model.safetensors", tensors_of(recorded));
    write_text(folder() / "config.json", released_json(recorded.config()));
    expect_same_outputs(outputs(Checkpoint::open(folder())), outputs(recorded));
  }
}

TEST_F(V32Checkpoint, ACaseWhoseModelAndConfigurationDisagreeIsRefused) {
  const auto refused = [&](const char* model, const std::string& config, const std::vector<std::string>& words) {
    write_tensors(folder() / "case.safetensors", {},
                  {{"format", "attention-case/1"}, {"model", model}, {"config", config}});
    expect_error(ErrorCode::bad_config, words, [&] { Checkpoint::open(folder() / "case.safetensors"); });
  };
  const std::string v32 = config_json(config_), v41 = config_json(named_v41("v41-tiny"));
  refused("deepseek_v41", without(v32, "/model_type"),
          {"case.safetensors: config of deepseek_v41: head_dim is missing"});
  refused("deepseek_v32", without(v41, "/model_type"),
          {"case.safetensors: config of deepseek_v32: kv_lora_rank is missing"});
  refused("deepseek_v41", v32, {"config of deepseek_v41: model_type is \"deepseek_v32\"", "\"deepseek_v41\""});
  refused("deepseek_v32", v41, {"config of deepseek_v32: model_type is \"deepseek_v41\"", "\"deepseek_v32\""});
  refused("deepseek_v3", v32, {"model is 'deepseek_v3'", "'deepseek_v41', 'deepseek_v32' or 'deepseek_v4'"});
}

TEST_F(V32Checkpoint, EveryMissingTensorIsNamed) {
  for (const auto& [name, tensor] : TensorMap(tensors_)) {
    SCOPED_TRACE(name);
    tensors_.erase(name);
    const std::vector<TensorProblem> found = problems();
    EXPECT_EQ(name_of(found, Kind::missing), name);
    EXPECT_EQ(found.size(), 1u) << "a scale without its weight is not a second problem";
    EXPECT_TRUE(found[0].what.starts_with("missing, expected shape " + synthetic_.tensor(name).shape_text()));
    tensors_[name] = tensor;
  }
  tensors_.erase(name_in(2, "o_proj.weight"));
  EXPECT_NO_THROW(Model{saved()}) << "the draft layer was not asked for";
  tensors_.erase(name_in(1, "q_b_proj.weight_scale_inv"));
  model_error({name_in(1, "q_b_proj.weight_scale_inv"), "missing", "[2, 1]", "F32"});
}

TEST_F(V32Checkpoint, EveryWrongShapeIsQuotedWithTheRightOne) {
  for (const auto& [name, tensor] : TensorMap(tensors_)) {
    SCOPED_TRACE(name);
    tensors_[name].shape.push_back(1);
    const std::vector<TensorProblem> found = problems();
    const std::string good = synthetic_.tensor(name).shape_text();
    EXPECT_EQ(name_of(found, Kind::mismatched), name);
    EXPECT_EQ(found.size(), 1u) << "beside a weight of another shape, a scale is not a second problem";
    EXPECT_EQ(found[0].what, "shape " + good.substr(0, good.size() - 1) + ", 1], expected " + good);
    tensors_[name] = tensor;
  }
}

TEST_F(V32Checkpoint, EveryDTypeIsAcceptedOrQuotedWithTheRightOnes) {
  struct Row {
    std::vector<const char*> names;
    std::vector<DType> accepted;
    const char* expected;
  };
  const std::vector<Row> rows = {
      {{"q_a_proj.weight_scale_inv", "kv_b_proj.weight_scale_inv"}, {DType::f32}, "expected F32"},
      {{"q_a_layernorm.weight", "kv_a_layernorm.weight", "indexer.k_norm.weight", "indexer.k_norm.bias",
        "indexer.weights_proj.weight"},
       {DType::f32, DType::bf16},
       "expected BF16 or F32"},
      {{"q_a_proj.weight", "kv_b_proj.weight", "o_proj.weight", "indexer.wk.weight"},
       {DType::f8_e4m3, DType::bf16},
       "expected F8_E4M3 or BF16"}};
  for (const Row& row : rows) {
    for (const char* name : row.names) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f8_e4m3, DType::f8_e8m0, DType::f64}) {
        SCOPED_TRACE(std::string(name) + " as " + std::string(dtype_name(dtype)));
        recast(name_in(0, name), dtype);
        const std::string found = name_of(problems(), Kind::mismatched);
        if (std::find(row.accepted.begin(), row.accepted.end(), dtype) != row.accepted.end()) {
          EXPECT_EQ(found, "");
        } else {
          EXPECT_EQ(found, name_in(0, name));
          model_error({name_in(0, name), std::string(dtype_name(dtype)), row.expected});
        }
        tensors_ = tensors_of(synthetic_);
      }
    }
  }
}

TEST_F(V32Checkpoint, NormsBiasesAndIndexWeightsMayBeWide) {
  const std::vector<bf16> narrow = outputs(saved());
  int changed = 0;
  for (auto& [name, tensor] : tensors_) {
    if (name.find("norm.") == std::string::npos && name.find("weights_proj.") == std::string::npos) continue;
    tensor = widened(tensor);
    ++changed;
  }
  EXPECT_EQ(changed, 3 * 5);
  expect_same_outputs(outputs(saved()), narrow);
}

TEST_F(V32Checkpoint, ProjectionsMayBePlain) {
  const TensorMap plain = tensors_of(Checkpoint::synthetic(tiny(WeightType::bf16)));
  EXPECT_EQ(plain.size(), 3u * 12u);
  for (const char* name : {"kv_b_proj", "o_proj", "indexer.wk"}) {
    const std::string weight = name_in(0, std::string(name) + ".weight");
    tensors_[weight] = plain.at(weight);
    EXPECT_EQ(name_of(problems(), Kind::unexpected), weight + "_scale_inv") << "of the fp8 weight that was there";
    tensors_.erase(weight + "_scale_inv");
    EXPECT_TRUE(problems().empty());
  }
  EXPECT_NO_THROW(outputs(saved()));
}

TEST_F(V32Checkpoint, UnexpectedTensorsOfALayerAreNamed) {
  const StoredTensor some = tensors_.at(name_in(0, "indexer.k_norm.bias"));
  for (const char* name :
       {"model.layers.0.mlp.gate.weight", "model.layers.0.input_layernorm.weight", "model.layers.2.eh_proj.weight",
        "model.layers.3.self_attn.o_proj.weight", "lm_head.weight"}) {
    tensors_[name] = some;
  }
  EXPECT_TRUE(problems().empty()) << "not attention of these layers";
  for (const char* name : {"rotary_emb.inv_freq", "q_proj.weight", "o_proj.bias", "kv_b_proj.weight_scale",
                           "q_a_layernorm.bias", "indexer.wk.scale", "indexer.weights_proj.weight_scale_inv"}) {
    SCOPED_TRACE(name);
    tensors_[name_in(1, name)] = some;
    EXPECT_EQ(name_of(problems(), Kind::unexpected), name_in(1, name));
    EXPECT_TRUE(saved().problems(std::array{0, 2}).empty());
    model_error({name_in(1, name), "no use"});
    EXPECT_NO_THROW(Model(saved(), {.strict = false}));
    tensors_.erase(name_in(1, name));
  }
}

TEST_F(V32Checkpoint, WhatIsNeverFp8HasNoScale) {
  for (const char* name : {"q_a_layernorm.weight", "indexer.k_norm.weight", "indexer.weights_proj.weight"}) {
    SCOPED_TRACE(name);
    StoredTensor& tensor = tensors_.at(name_in(0, name));
    tensor = widened(tensor);
    tensors_[name_in(0, name) + "_scale_inv"] = stored(DType::f32, {1, 1}, std::vector<float>{1});
    EXPECT_EQ(name_of(problems(), Kind::unexpected), name_in(0, name) + "_scale_inv");
    tensors_ = tensors_of(synthetic_);
  }
}

class V32Scales : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, V32Scales, every_set(), set_name);

/// kv_a_proj_with_mqa is 144 x 200: neither fills its blocks.
TEST_P(V32Scales, EachBlockOf128HasItsOwnAndTheGridRoundsUp) {
  const TemporaryFolder folder;
  V32Config config = tiny();
  config.dim = 200;
  const std::string name = name_in(0, "kv_a_proj_with_mqa.weight"), scale = name + "_scale_inv";
  TensorMap tensors = tensors_of(Checkpoint::synthetic(config));
  EXPECT_EQ(tensors.at(scale).shape, (Shape{2, 2}));
  tensors[name] = stored(DType::f8_e4m3, {144, 200}, std::vector<std::uint8_t>(144 * 200, 0x38));  // 1.0
  tensors[scale] = stored(DType::f32, {2, 2}, std::vector<float>{1, 2, 4, 8});
  const Checkpoint checkpoint = save(folder.path(), config, tensors);
  Digest fingerprint;
  const LayerLoader loader(checkpoint, 0, kernels(), memory(), fingerprint);
  const v32::Weights layer = v32::load_weights(loader, config);
  std::vector<bf16> identity(200 * 200, bf16{0}), columns(200 * 144);
  for (std::size_t i = 0; i < 200; ++i) identity[i * 201] = bf16{0x3F80};
  Context context(1);
  kernels().linear(context, View<const bf16, 2>(identity.data(), {200, 200}), layer.wkv_a,
                   View<bf16, 2>(columns.data(), {200, 144}));
  for (std::size_t column = 0; column < 200; ++column) {
    for (std::size_t row = 0; row < 144; ++row) {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(columns[column * 144 + row].bits) << 16);
      ASSERT_EQ(value, std::ldexp(1.0f, static_cast<int>(row / 128 * 2 + column / 128))) << row << " " << column;
    }
  }
  for (const Shape& other : {Shape{1, 4}, {4}, {2, 2, 1}}) {
    tensors[scale].shape = other;
    expect_error(ErrorCode::tensor_mismatch, {scale, "[2, 2]"}, [&] { Model{save(folder.path(), config, tensors)}; });
  }
}

}  // namespace
}  // namespace skim::test

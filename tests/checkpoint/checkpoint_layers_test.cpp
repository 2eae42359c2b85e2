// Claims: tensors that are missing, of the wrong shape or dtype, or of no use are found and named, all at once; every
// dtype that a tensor may have gives the same weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/expect_error.hpp"
#include "kernels/every_set.hpp"
#include "models/v41/weights.hpp"
#include "named_v41.hpp"

namespace skim::test {
namespace {

class CheckpointLayers : public testing::Test {
 protected:
  Checkpoint saved() const { return save(temporary_.path(), config_, tensors_); }
  std::vector<bf16> saved_outputs(const ModelOptions& options = {}) const { return outputs(saved(), options); }
  /// What the constructor of a model says.
  std::string model_error(const std::vector<std::string>& words, const ModelOptions& options = {}) const {
    const Checkpoint checkpoint = saved();
    return expect_error(ErrorCode::tensor_mismatch, words, [&] { Model(checkpoint, options); });
  }
  void start_over(const V41Config& config) {
    config_ = config;
    tensors_ = tensors_of(Checkpoint::synthetic(config));
  }

  TemporaryFolder temporary_;
  V41Config config_ = named_v41("v41-tiny");
  TensorMap tensors_ = tensors_of(Checkpoint::synthetic(config_));
};

constexpr const char* kSomeLinear = "layers.0.attn.wkv.weight";
constexpr const char* kItsScale = "layers.0.attn.wkv.scale";

TEST_F(CheckpointLayers, AGoodCheckpointHasNoProblems) {
  EXPECT_TRUE(saved().problems(all_layers(config_)).empty());
  EXPECT_TRUE(saved().problems({}).empty());
  const V41Config flash = named_v41("v41-flash");
  for (int layer = 0; layer < flash.layer_count(); ++layer) {
    EXPECT_TRUE(Checkpoint::synthetic(flash).problems(std::array{layer}).empty()) << layer;
  }
  expect_error(ErrorCode::invalid_argument, {"layer 8"}, [&] { saved().problems(std::array{8}); });
}

TEST_F(CheckpointLayers, ProblemsConcernOnlyTheLayersAskedFor) {
  tensors_.erase(kSomeLinear);
  tensors_["layers.1.attn.more"] = tensors_.at("layers.1.attn.attn_sink");
  tensors_["layers.0.ffn.w1.weight"] = tensors_.at("layers.1.attn.attn_sink");
  tensors_["lm_head.weight"] = tensors_.at("layers.1.attn.attn_sink");
  EXPECT_TRUE(saved().problems(std::array{2, 3, 7}).empty());
  EXPECT_EQ(name_of(saved().problems(std::array{0}), TensorProblem::Kind::missing), kSomeLinear);
  EXPECT_EQ(name_of(saved().problems(std::array{1}), TensorProblem::Kind::unexpected), "layers.1.attn.more");
  EXPECT_NO_THROW(Model(saved(), {.layers = {2, 3}}));
}

TEST_F(CheckpointLayers, AWrongShapeIsQuotedWithTheRightOne) {
  tensors_[kSomeLinear].shape = {128, 64};
  model_error({kSomeLinear, "[128, 64]", "[64, 128]"});
  tensors_[kSomeLinear].shape = {8192};
  model_error({kSomeLinear, "[8192]", "[64, 128]"});
  start_over(config_);
  tensors_["layers.2.attn.indexer.k_norm.weight"].shape = {64, 1};
  model_error({"layers.2.attn.indexer.k_norm.weight", "[64, 1]", "[64]"});
}

TEST_F(CheckpointLayers, AWrongDTypeIsQuotedWithTheRightOnes) {
  const std::vector<std::vector<std::string>> rows = {{"layers.0.attn.wq_a.weight", "F8_E4M3 or BF16"},
                                                      {"layers.0.attn.wo_a.weight", "F8_E4M3 or BF16"},
                                                      {"layers.2.attn.indexer.wk.weight", "F8_E4M3 or BF16"},
                                                      {"layers.0.attn.q_norm.weight", "BF16 or F32"},
                                                      {"layers.2.attn.compressor.wgate.weight", "BF16 or F32"},
                                                      {"layers.0.attn.attn_sink", "BF16 or F32"},
                                                      {"layers.2.attn.indexer.weights_proj.weight", "F8_E4M3 or BF16"}};
  for (const std::vector<std::string>& row : rows) {
    SCOPED_TRACE(row[0]);
    start_over(config_);
    StoredTensor& tensor = tensors_.at(row[0]);
    tensor.dtype = DType::f64;
    tensor.bytes.resize(8);
    for (const std::int64_t extent : tensor.shape)
      tensor.bytes.resize(tensor.bytes.size() * static_cast<std::size_t>(extent));
    model_error({row[0], "F64", row[1]});
  }
  start_over(config_);
  tensors_[kItsScale].dtype = DType::u8;
  model_error({kItsScale, "U8", "F8_E8M0"});
}

TEST_F(CheckpointLayers, DraftLayersBearTheirOwnNames) {
  EXPECT_TRUE(tensors_.contains("mtp.0.attn.wq_a.weight"));
  const ModelOptions draft{.layers = {7}};
  expect_same_outputs(saved_outputs(draft), outputs(Checkpoint::synthetic(config_), draft));
  EXPECT_EQ(Model(saved()).layers(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  tensors_.erase("mtp.0.attn.wkv.weight");
  model_error({"mtp.0.attn.wkv.weight"}, draft);
  EXPECT_NO_THROW(Model{saved()});
}

/// bf16 values of e4m3 codes with a scale per 32 x 32 block, from the definitions of the formats.
StoredTensor dequantized(const StoredTensor& codes, const StoredTensor& scales) {
  std::vector<std::uint16_t> values;
  for (std::int64_t row = 0; row < codes.shape[0]; ++row) {
    for (std::int64_t column = 0; column < codes.shape[1]; ++column) {
      const auto code = std::to_integer<unsigned>(codes.bytes[static_cast<std::size_t>(row * codes.shape[1] + column)]);
      const auto block = static_cast<std::size_t>(row / 32 * scales.shape[1] + column / 32);
      const unsigned exponent = code >> 3 & 15u, mantissa = code & 7u;
      const double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, static_cast<int>(exponent) - 10);
      const double value =
          std::ldexp((code & 0x80u) != 0 ? -magnitude : magnitude, std::to_integer<int>(scales.bytes[block]) - 127);
      values.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    }
  }
  return stored(DType::bf16, codes.shape, values);
}

TEST_F(CheckpointLayers, OutputWeightsMayBeQuantized) {
  std::vector<std::uint8_t> codes(64 * 128);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 37 % 251 % 127 + i % 2 * 128);
  const StoredTensor weight = stored(DType::f8_e4m3, {64, 128}, codes);
  const StoredTensor scale =
      stored(DType::f8_e8m0, {2, 4}, std::vector<std::uint8_t>{118, 119, 120, 121, 117, 118, 119, 120});
  for (int layer = 0; layer < config_.n_layers; ++layer) {
    tensors_["layers." + std::to_string(layer) + ".attn.wo_a.weight"] = weight;
    tensors_["layers." + std::to_string(layer) + ".attn.wo_a.scale"] = scale;
  }
  const std::vector<bf16> quantized = saved_outputs();
  for (int layer = 0; layer < config_.n_layers; ++layer) {
    tensors_["layers." + std::to_string(layer) + ".attn.wo_a.weight"] = dequantized(weight, scale);
    tensors_.erase("layers." + std::to_string(layer) + ".attn.wo_a.scale");
  }
  expect_same_outputs(saved_outputs(), quantized);
}

TEST_F(CheckpointLayers, CompressorsNormsAndSinksMayBeWide) {
  const std::vector<bf16> narrow = saved_outputs();
  int changed = 0;
  for (auto& [name, tensor] : tensors_) {
    if (name.find("compressor.") == std::string::npos && name.find("norm.") == std::string::npos) continue;
    EXPECT_EQ(tensor.dtype, DType::bf16) << name;
    tensor = widened(tensor);
    ++changed;
  }
  EXPECT_EQ(changed, 2 * 8 + 2 + 1 + 2 + 2);  // window norms, compressor wkv and wgate, its norms, index key norms
  expect_same_outputs(saved_outputs(), narrow);
}

TEST_F(CheckpointLayers, SinksMayBeNarrow) {
  const std::vector<std::uint16_t> values = {0x3F80, 0xBF80, 0x3E00, 0x4000};
  tensors_["layers.0.attn.attn_sink"] = stored(DType::bf16, {4}, values);
  const std::vector<bf16> narrow = saved_outputs();
  tensors_["layers.0.attn.attn_sink"] = widened(tensors_["layers.0.attn.attn_sink"]);
  expect_same_outputs(saved_outputs(), narrow);
}

v41::Weights load_v41(const Checkpoint& checkpoint, int layer, const Kernels& kernels, Memory& memory) {
  Digest fingerprint;
  const LayerLoader loader(checkpoint, layer, kernels, memory, fingerprint);
  return v41::load_weights(loader, as_v41(checkpoint.config()), layer_role(checkpoint.config(), layer));
}

class WideCompressor : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, WideCompressor, every_set(), set_name);

TEST_P(WideCompressor, KeepsValuesThatBf16DoesNotHave) {
  const TemporaryFolder folder;
  const V41Config config = named_v41("v41-tiny");
  TensorMap tensors = tensors_of(Checkpoint::synthetic(config));
  std::vector<float> values(64 * 128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0f / static_cast<float>(3 + i);
  tensors["layers.4.attn.compressor.wkv.weight"] = stored(DType::f32, {64, 128}, values);
  const Checkpoint checkpoint = save(folder.path(), config, tensors);
  EXPECT_NO_THROW(outputs(checkpoint, {.kernels = std::string(GetParam()->name)}));
  const v41::Weights layer = load_v41(checkpoint, 4, kernels(), memory());
  std::vector<bf16> unit(128, bf16{0});
  unit[77] = bf16{0x3F80};
  std::vector<float> column(64);
  Context context(1);
  kernels().linear_f32(context, View<const bf16, 2>(unit.data(), {1, 128}), layer.compressor->wkv,
                       View<float, 2>(column.data(), {1, 64}));
  for (std::size_t row = 0; row < column.size(); ++row) EXPECT_EQ(column[row], values[row * 128 + 77]) << row;
}

class Fault05 : public CheckpointLayers {
 protected:
  void SetUp() override {
    V41Config config = named_v41("v41-tiny");
    config.n_layers = 5;
    config.n_draft_layers = 0;
    config.compress_ratios = {0, 2, 2, 1, 1};
    config.kv_source_layers = config.index_source_layers = {1, 3};
    config.candidate_source_layer = -1;
    start_over(config);
  }
};

TEST_F(Fault05, OnlySourcesCompressAndOnlyRatioTwoHasAGate) {
  std::string compressors, indexers;
  for (const auto& [name, tensor] : tensors_) {
    if (name.find(".compressor.w") != std::string::npos) compressors += name.substr(7, 1) + name.substr(25, 3) + " ";
    if (name.find(".indexer.wk.") != std::string::npos) indexers += name.substr(7, 1);
  }
  EXPECT_EQ(compressors, "1wga 1wkv 3wkv ");
  EXPECT_EQ(indexers, "13");
  expect_same_outputs(saved_outputs(), outputs(Checkpoint::synthetic(config_)));
}

TEST_F(Fault05, AMissingGateIsNamed) {
  tensors_.erase("layers.1.attn.compressor.wgate.weight");
  model_error({"layers.1.attn.compressor.wgate.weight", "missing", "[64, 128]"});
  model_error({"layers.1.attn.compressor.wgate.weight"}, {.strict = false});
}

TEST_F(Fault05, AGateAtRatioOneIsReportedAndNotUsed) {
  const std::string extra = "layers.3.attn.compressor.wgate.weight";
  tensors_[extra] = tensors_.at("layers.1.attn.compressor.wgate.weight");
  model_error({extra, "no use"});
  EXPECT_EQ(name_of(saved().problems(std::array{0, 1, 2, 3, 4}), TensorProblem::Kind::unexpected), extra);
  expect_same_outputs(saved_outputs({.strict = false}), outputs(Checkpoint::synthetic(config_)));
}

class Fault06 : public EverySet {
 protected:
  /// wkv is 96 x 64.
  static V41Config config() {
    V41Config config = named_v41("v41-tiny");
    config.head_dim = 96;
    config.dim = 64;
    return config;
  }
  static TensorMap tensors(std::vector<std::int64_t> scale_shape) {
    TensorMap map = tensors_of(Checkpoint::synthetic(config()));
    map[kSomeLinear] = stored(DType::f8_e4m3, {96, 64}, std::vector<std::uint8_t>(96 * 64, 0x38));  // 1.0
    map[kItsScale] =
        stored(DType::f8_e8m0, std::move(scale_shape), std::vector<std::uint8_t>{127, 128, 129, 130, 131, 132});
    return map;
  }
  TemporaryFolder temporary_;
};
INSTANTIATE_TEST_SUITE_P(, Fault06, every_set(), set_name);

TEST_P(Fault06, EachBlockOf32HasItsOwnScale) {
  const Checkpoint checkpoint = save(temporary_.path(), config(), tensors({3, 2}));
  EXPECT_NO_THROW(outputs(checkpoint, {.kernels = std::string(GetParam()->name)}));
  const v41::Weights layer = load_v41(checkpoint, 0, kernels(), memory());
  std::vector<bf16> identity(64 * 64, bf16{0}), columns(64 * 96);
  for (std::size_t i = 0; i < 64; ++i) identity[i * 65] = bf16{0x3F80};
  Context context(1);
  kernels().linear(context, View<const bf16, 2>(identity.data(), {64, 64}), layer.wkv,
                   View<bf16, 2>(columns.data(), {64, 96}));
  for (std::size_t column = 0; column < 64; ++column) {
    for (std::size_t row = 0; row < 96; ++row) {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(columns[column * 96 + row].bits) << 16);
      EXPECT_EQ(value, std::ldexp(1.0f, static_cast<int>(row / 32 * 2 + column / 32))) << row << " " << column;
    }
  }
}

TEST_P(Fault06, AnotherGridIsRefused) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{2, 3}, {6}, {1, 6}, {3, 2, 1}}) {
    const Checkpoint checkpoint = save(temporary_.path(), config(), tensors(shape));
    const std::string found = checkpoint.tensor(kItsScale).shape_text();
    expect_error(ErrorCode::tensor_mismatch, {kItsScale, found, "[3, 2]"},
                 [&] { Model(checkpoint, {.kernels = std::string(GetParam()->name)}); });
  }
}

using Fault68 = CheckpointLayers;

TEST_F(Fault68, EveryMissingAndUnexpectedNameIsListed) {
  const std::vector<std::string> missing = {"layers.0.attn.attn_sink", "layers.2.attn.indexer.weights_proj.weight",
                                            "layers.4.attn.compressor.norm.weight", "layers.6.attn.q_norm.weight"};
  const std::vector<std::string> unexpected = {"layers.0.attn.wq.weight", "layers.1.attn.compressor.ape",
                                               "layers.3.attn.indexer.wk.weight"};
  for (const std::string& name : unexpected) tensors_[name] = tensors_.at("layers.0.attn.attn_sink");
  for (const std::string& name : missing) tensors_.erase(name);
  tensors_["layers.5.attn.wkv.weight"].shape = {128, 64};
  std::vector<std::string> words = missing;
  words.insert(words.end(), unexpected.begin(), unexpected.end());
  words.insert(words.end(), {"layers.5.attn.wkv.weight", "[128, 64]", "[64, 128]"});
  model_error(words);
  const std::string lax = model_error(missing, {.strict = false});
  for (const std::string& name : unexpected) EXPECT_EQ(lax.find(name), std::string::npos) << lax;
}

TEST_F(Fault68, ExtraTensorsAreIgnoredOnlyIfAskedTo) {
  tensors_["layers.3.attn.indexer.wk.weight"] = tensors_.at("layers.0.attn.attn_sink");
  model_error({"layers.3.attn.indexer.wk.weight"});
  expect_same_outputs(saved_outputs({.strict = false}), outputs(Checkpoint::synthetic(config_)));
}

using Fault70 = CheckpointLayers;

TEST_F(Fault70, AMissingScaleIsNamed) {
  tensors_.erase(kItsScale);
  model_error({kItsScale, "missing", "[2, 4]", "F8_E8M0"});
  model_error({kItsScale}, {.strict = false});
}

TEST_F(Fault70, AScaleLeftOverIsReported) {
  tensors_[kSomeLinear] = dequantized(tensors_.at(kSomeLinear), tensors_.at(kItsScale));
  const std::string message = model_error({kItsScale, "no use"});
  EXPECT_EQ(message.find(kSomeLinear), std::string::npos) << message;
  const std::vector<bf16> ignored = saved_outputs({.strict = false});
  tensors_.erase(kItsScale);
  expect_same_outputs(saved_outputs(), ignored);
}

TEST_F(Fault70, AWeightOfTheWrongShapeIsTheOnlyProblem) {
  tensors_[kSomeLinear].shape = {128, 64};
  const std::string message = model_error({kSomeLinear});
  EXPECT_EQ(message.find(kItsScale), std::string::npos) << message;
}

}  // namespace
}  // namespace skim::test

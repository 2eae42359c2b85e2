// Claims: a checkpoint gives the same model in every form it may have on disk, and needs only the files of the layers
// that are asked for; what is damaged, missing or points elsewhere is a clean error that names the file.
#include "skim/checkpoint.hpp"
#include "named_v41.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <fstream>
#include <future>
#include <memory>

#include "cases.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/expect_error.hpp"
#include "models/config_text.hpp"
#include "skim/config_fields.hpp"

namespace skim::test {
namespace {

namespace fs = std::filesystem;

class CheckpointFiles : public testing::Test {
 protected:
  void write_shards() const { test::write_shards(folder(), config_, tensors_); }
  const fs::path& folder() const { return temporary_.path(); }
  std::string open_error(ErrorCode code, const std::vector<std::string>& words) const {
    return expect_error(code, words, [&] { Checkpoint::open(folder()); });
  }

  TemporaryFolder temporary_;
  V41Config config_ = named_v41("v41-tiny");
  Checkpoint synthetic_ = Checkpoint::synthetic(config_);
  TensorMap tensors_ = tensors_of(synthetic_);
};

TEST_F(CheckpointFiles, AFolderWithOneFile) {
  write_tensors(folder() / "model.safetensors", tensors_);
  write_text(folder() / "config.json", released_json(config_));
  expect_same_checkpoint(Checkpoint::open(folder()), synthetic_);
  expect_same_checkpoint(Checkpoint::open(folder() / ""), synthetic_);
}

TEST_F(CheckpointFiles, AFolderWithShards) {
  write_shards();
  expect_same_checkpoint(Checkpoint::open(folder()), synthetic_);
}

TEST_F(CheckpointFiles, OneFileWithItsConfigurationBesideIt) {
  write_tensors(folder() / "any name.safetensors", tensors_, {{"format", "pt"}});
  write_text(folder() / "config.json", config_json(config_));
  expect_same_checkpoint(Checkpoint::open(folder() / "any name.safetensors"), synthetic_);
}

TEST_F(CheckpointFiles, ACaseFileWithWeights) {
  const std::map<std::string, std::string> metadata = {
      {"format", "attention-case/1"}, {"model", "deepseek_v41"}, {"config", config_json(config_)}};
  write_tensors(folder() / "case.safetensors", tensors_, metadata, "weights/");
  expect_same_checkpoint(Checkpoint::open(folder() / "case.safetensors"), synthetic_);
}

TEST_F(CheckpointFiles, ACaseFileThatNamesItsFiller) {
  const Checkpoint flash = Checkpoint::open(case_path("v41-flash-layers"));
  const Checkpoint same = Checkpoint::synthetic(flash.config());
  EXPECT_EQ(flash.tensors().size(), same.tensors().size());
  const std::string name = "layers.20.attn.indexer.k_norm.weight";
  const Tensor mine = flash.tensor(name), theirs = same.tensor(name);
  EXPECT_TRUE(std::equal(mine.bytes.begin(), mine.bytes.end(), theirs.bytes.begin(), theirs.bytes.end()));
  EXPECT_TRUE(flash.problems(std::array{0, 2, 20, 24, 42}).empty());
}

TEST_F(CheckpointFiles, RecordedCasesAreCompleteCheckpoints) {
  for (const char* name : {"v41-tiny-bf16", "v41-tiny-fp8", "v32-tiny-bf16", "v32-tiny-fp8"}) {
    SCOPED_TRACE(name);
    const Checkpoint recorded = Checkpoint::open(case_path(name));
    for (const TensorInfo& info : recorded.tensors()) EXPECT_GE(layer_of_tensor(recorded.config(), info.name), 0);
    const Checkpoint copy = save(folder(), recorded.config(), tensors_of(recorded));
    expect_same_outputs(outputs(recorded), outputs(copy));
  }
}

TEST_F(CheckpointFiles, ACaseFileOfAnotherKindIsRefused) {
  const std::string text = config_json(config_);
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& words,
                           std::map<std::string, std::string> metadata) {
    metadata["format"] = "attention-case/1";
    write_tensors(folder() / "case.safetensors", {}, metadata);
    expect_error(code, words, [&] { Checkpoint::open(folder() / "case.safetensors"); });
  };
  refused(ErrorCode::bad_config, {"'deepseek_v31'", "case.safetensors"}, {{"model", "deepseek_v31"}, {"config", text}});
  refused(ErrorCode::bad_file, {"'model'", "case.safetensors"}, {{"config", text}});
  refused(ErrorCode::bad_file, {"'config'", "case.safetensors"}, {{"model", "deepseek_v41"}});
  refused(ErrorCode::bad_config, {"case.safetensors"}, {{"model", "deepseek_v41"}, {"config", "{"}});
  refused(ErrorCode::bad_file, {"'filler/2'", "filler/1"},
          {{"model", "deepseek_v41"}, {"config", text}, {"weights", "filler/2"}});
}

TEST_F(CheckpointFiles, LayersNeedOnlyTheirOwnShards) {
  write_shards();
  for (const int layer : {0, 1, 3, 5, 6, 7}) fs::remove(folder() / shard_name(layer));
  const Checkpoint checkpoint = Checkpoint::open(folder());
  expect_same_outputs(outputs(checkpoint, {.layers = {2, 4}}), outputs(synthetic_, {.layers = {2, 4}}));
  EXPECT_TRUE(checkpoint.contains("layers.3.attn.wkv.weight"));
  for (int again = 0; again < 2; ++again) {
    expect_error(ErrorCode::io, {shard_name(3)}, [&] { checkpoint.tensor("layers.3.attn.wkv.weight"); });
    expect_error(ErrorCode::io, {shard_name(3)}, [&] { checkpoint.info("layers.3.attn.wkv.weight"); });
  }
  expect_error(ErrorCode::io, {"model-layer-"}, [&] { checkpoint.tensors(); });
  expect_error(ErrorCode::io, {shard_name(3)}, [&] { Model(checkpoint, {.layers = {2, 3}}); });
  write_shards();
  EXPECT_NO_THROW(Model(checkpoint, {.layers = {2, 3}})) << "a shard that has come later";
}

TEST_F(CheckpointFiles, ADamagedShardIsNamed) {
  write_shards();
  fs::resize_file(folder() / shard_name(3), 100);
  const Checkpoint checkpoint = Checkpoint::open(folder());
  EXPECT_NO_THROW(Model(checkpoint, {.layers = {2}}));
  expect_error(ErrorCode::bad_file, {shard_name(3)}, [&] { Model(checkpoint, {.layers = {2, 3}}); });
}

TEST_F(CheckpointFiles, AnIndexNeverLeadsOutOfItsFolder) {
  write_shards();
  for (const char* file : {"../x", "/etc/passwd", "a/b", "..", ".", "", "./model.safetensors", "/"}) {
    SCOPED_TRACE(file);
    write_index(folder(), R"({"layers.0.attn.wkv.weight": ")" + std::string(file) + "\"}");
    open_error(ErrorCode::bad_file, {kIndex, "layers.0.attn.wkv.weight", "same folder"});
  }
}

TEST_F(CheckpointFiles, AnIndexThatIsNoneIsRefused) {
  write_shards();
  for (const char* map : {"7", "null", "\"x\"", "[]", R"({"a.weight": 7})"}) {
    SCOPED_TRACE(map);
    write_index(folder(), map);
    open_error(ErrorCode::bad_file, {kIndex, "weight_map"});
  }
  for (const char* text : {"", "{", "[]", "{}", R"({"weight_map": {"a": "x", "a": "y"}})"}) {
    SCOPED_TRACE(text);
    write_text(folder() / kIndex, text);
    open_error(ErrorCode::bad_file, {kIndex});
  }
  fs::remove(folder() / kIndex);
  fs::create_directory(folder() / kIndex);
  open_error(ErrorCode::io, {kIndex});
}

TEST_F(CheckpointFiles, AnIndexThatLoopsIsACleanError) {
  write_text(folder() / "config.json", config_json(config_));
  fs::create_symlink(kIndex, folder() / kIndex);
  open_error(ErrorCode::io, {folder().string()});
}

TEST_F(CheckpointFiles, ATensorThatItsShardLacksIsNamed) {
  write_shards();
  TensorMap shard = tensors_of(Checkpoint::open(folder()));
  std::erase_if(shard, [](const auto& entry) { return !entry.first.starts_with("layers.2."); });
  shard.erase("layers.2.attn.wkv.weight");
  write_tensors(folder() / shard_name(2), shard);
  const Checkpoint checkpoint = Checkpoint::open(folder());
  const std::vector<std::string> words = {shard_name(2), "layers.2.attn.wkv.weight"};
  expect_error(ErrorCode::bad_file, words, [&] { checkpoint.tensor("layers.2.attn.wkv.weight"); });
  expect_error(ErrorCode::bad_file, words, [&] { Model(checkpoint, {.layers = {2}}); });
  EXPECT_NO_THROW(checkpoint.tensor("layers.2.attn.wkv.scale"));
}

TEST_F(CheckpointFiles, ATensorThatDoesNotExistIsNamed) {
  for (const Checkpoint& checkpoint : {synthetic_, save(folder(), config_, tensors_)}) {
    EXPECT_FALSE(checkpoint.contains("layers.0.attn.wq"));
    EXPECT_FALSE(checkpoint.contains(""));
    expect_error(ErrorCode::tensor_mismatch, {"layers.0.attn.wq"}, [&] { checkpoint.tensor("layers.0.attn.wq"); });
    expect_error(ErrorCode::tensor_mismatch, {"layers.0.attn.wq"}, [&] { checkpoint.info("layers.0.attn.wq"); });
  }
}

TEST_F(CheckpointFiles, WithoutConfigurationNothingOpens) {
  write_tensors(folder() / "model.safetensors", tensors_);
  const fs::path config = folder() / "config.json";
  open_error(ErrorCode::io, {config.string()});
  expect_error(ErrorCode::io, {config.string()}, [&] { Checkpoint::open(folder() / "model.safetensors"); });
  fs::create_directory(config);
  open_error(ErrorCode::io, {config.string()});
  fs::remove(config);
  const std::string text = released_json(config_);
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size() - 1}) {
    write_text(config, text.substr(0, length));
    open_error(ErrorCode::bad_config, {config.string()});
  }
}

TEST_F(CheckpointFiles, AConfigurationThatIsAPipeDoesNotBlock) {
  const fs::path config = folder() / "config.json";
  ASSERT_EQ(::mkfifo(config.c_str(), 0600), 0);
  std::future<void> opened = std::async(std::launch::async, [&] { open_error(ErrorCode::io, {config.string()}); });
  if (opened.wait_for(std::chrono::seconds(5)) == std::future_status::timeout) {
    ADD_FAILURE() << "waits for a writer";
    const std::ofstream writer(config);
  }
  opened.get();
}

TEST_F(CheckpointFiles, WhatIsNoCheckpointIsACleanError) {
  expect_error(ErrorCode::io, {"missing"}, [&] { Checkpoint::open(folder() / "missing"); });
  expect_error(ErrorCode::io, {}, [&] { Checkpoint::open(""); });
  write_text(folder() / "config.json", released_json(config_));
  open_error(ErrorCode::io, {folder().string(), kIndex, "model.safetensors"});
  expect_error(ErrorCode::bad_file, {"config.json"}, [&] { Checkpoint::open(folder() / "config.json"); });
  write_text(folder() / "model.safetensors", "");
  open_error(ErrorCode::bad_file, {"model.safetensors"});
}

TEST_F(CheckpointFiles, ATensorOutlivesItsCheckpointAndTheFiles) {
  auto original = std::make_unique<Checkpoint>(save(folder(), config_, tensors_));
  auto copy = std::make_unique<Checkpoint>(*original);
  original.reset();
  const Tensor tensor = copy->tensor("layers.0.attn.attn_sink");
  copy.reset();
  fs::remove_all(folder());
  const StoredTensor& want = tensors_.at("layers.0.attn.attn_sink");
  EXPECT_TRUE(std::equal(tensor.bytes.begin(), tensor.bytes.end(), want.bytes.begin(), want.bytes.end()));
}

}  // namespace
}  // namespace skim::test

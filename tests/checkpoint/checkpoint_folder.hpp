// Checkpoints made of synthetic tensors in a folder of their own, and what a model makes of them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/config_documents.hpp"
#include "skim/skim.hpp"

namespace skim::test {

/// A folder that lasts as long as this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "skim-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create " + pattern);
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct StoredTensor {
  DType dtype = DType::u8;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};
using TensorMap = std::map<std::string, StoredTensor>;

template <class T>
StoredTensor stored(DType dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

template <class T>
std::vector<T> elements_of(const StoredTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// The same bf16 values as float32.
inline StoredTensor widened(const StoredTensor& tensor) {
  std::vector<float> values;
  for (const std::uint16_t bits : elements_of<std::uint16_t>(tensor)) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
  }
  return stored(DType::f32, tensor.shape, values);
}

inline TensorMap tensors_of(const Checkpoint& checkpoint) {
  TensorMap map;
  for (const TensorInfo& info : checkpoint.tensors()) {
    const Tensor tensor = checkpoint.tensor(info.name);
    map[info.name] = {tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
  }
  return map;
}

inline void write_tensors(const std::filesystem::path& path, const TensorMap& tensors,
                          const std::map<std::string, std::string>& metadata = {}, const std::string& prefix = "") {
  std::vector<TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) list.push_back({prefix + name, tensor.dtype, tensor.shape, tensor.bytes});
  write_safetensors(path, list, metadata);
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A checkpoint of one file with its configuration beside it.
inline Checkpoint save(const std::filesystem::path& folder, const Config& config, const TensorMap& tensors) {
  write_tensors(folder / "model.safetensors", tensors);
  write_text(folder / "config.json", inference_document(config).dump());
  return Checkpoint::open(folder);
}

inline constexpr const char* kIndex = "model.safetensors.index.json";

inline void write_index(const std::filesystem::path& folder, const nlohmann::json& map) {
  write_text(folder / kIndex, nlohmann::json{{"metadata", {{"total_size", 0}}}, {"weight_map", map}}.dump());
}

inline std::string shard_name(int layer) { return "model-layer-" + std::to_string(layer) + ".safetensors"; }

/// One shard per layer, with an index and config.json as a released model has it.
inline void write_shards(const std::filesystem::path& folder, const Config& config, const TensorMap& all) {
  std::map<int, TensorMap> shards;
  nlohmann::json map;
  for (const auto& [name, tensor] : all) {
    const int layer = layer_of_tensor(config, name);
    shards[layer][name] = tensor;
    map[name] = shard_name(layer);
  }
  for (const auto& [layer, tensors] : shards) write_tensors(folder / shard_name(layer), tensors);
  write_index(folder, map);
  write_text(folder / "config.json", released_document(config).dump());
}

/// What all layers of a model make of a short sequence: 19 tokens and then 2.
inline std::vector<bf16> outputs(const Model& model) {
  KvCache cache(model, {.page_rows = 8, .threads = 2});
  const SequenceId sequence = cache.add();
  const std::int64_t dim = hidden_dim(model.config());
  std::vector<bf16> all;
  for (const std::int64_t tokens : {19, 2}) {
    Batch batch = cache.begin({{sequence, tokens}});
    for (const int layer : model.layers()) {
      const Tensor input = synthetic_input("x." + std::to_string(layer) + "." + std::to_string(tokens), {tokens, dim});
      std::vector<bf16> x(static_cast<std::size_t>(tokens * dim)), out(x.size());
      std::memcpy(x.data(), input.bytes.data(), input.bytes.size());
      model.forward(layer, batch, View<const bf16, 2>(x.data(), {tokens, dim}),
                    View<bf16, 2>(out.data(), {tokens, dim}));
      all.insert(all.end(), out.begin(), out.end());
    }
    batch.commit();
  }
  return all;
}

inline std::vector<bf16> outputs(const Checkpoint& checkpoint, const ModelOptions& options = {}) {
  return outputs(Model(checkpoint, options));
}

/// Both models must give the same bits, and those must be numbers other than 0.
inline void expect_same_outputs(const std::vector<bf16>& got, const std::vector<bf16>& want) {
  ASSERT_EQ(got.size(), want.size());
  std::size_t different = 0, zeros = 0, not_finite = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    different += got[i] == want[i] ? 0 : 1;
    zeros += (want[i].bits & 0x7FFFu) == 0 ? 1 : 0;
    not_finite += (want[i].bits & 0x7F80u) == 0x7F80u ? 1 : 0;
  }
  EXPECT_EQ(different, 0u) << "of " << got.size();
  EXPECT_EQ(not_finite, 0u);
  EXPECT_LT(zeros, got.size() / 100);
}

inline std::vector<int> all_layers(const Config& config) {
  std::vector<int> layers(static_cast<std::size_t>(layer_count(config)));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

/// The tensors, one by one, and what a model computes from them.
inline void expect_same_checkpoint(const Checkpoint& got, const Checkpoint& want) {
  EXPECT_EQ(got.config(), want.config());
  const std::vector<TensorInfo> infos = got.tensors();
  ASSERT_EQ(infos.size(), want.tensors().size());
  for (const TensorInfo& info : infos) {
    SCOPED_TRACE(info.name);
    const Tensor mine = got.tensor(info.name), theirs = want.tensor(info.name);
    EXPECT_EQ(info.dtype, theirs.dtype);
    EXPECT_EQ(info.shape, theirs.shape);
    EXPECT_EQ(info.bytes, static_cast<std::int64_t>(theirs.bytes.size()));
    EXPECT_EQ(got.info(info.name).shape, theirs.shape);
    EXPECT_TRUE(std::equal(mine.bytes.begin(), mine.bytes.end(), theirs.bytes.begin(), theirs.bytes.end()));
  }
  EXPECT_TRUE(got.problems(all_layers(got.config())).empty());
  expect_same_outputs(outputs(got), outputs(want));
}

/// Names of the problems of this kind, separated by spaces.
inline std::string name_of(const std::vector<TensorProblem>& problems, TensorProblem::Kind kind) {
  std::string names;
  for (const TensorProblem& problem : problems) {
    if (problem.kind == kind) names += (names.empty() ? "" : " ") + problem.name;
  }
  return names;
}

}  // namespace skim::test

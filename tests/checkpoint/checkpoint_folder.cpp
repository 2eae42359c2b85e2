#include "checkpoint/checkpoint_folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <system_error>

#include "models/config_text.hpp"
#include "skim/config_fields.hpp"

namespace skim::test {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "skim-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create " + pattern);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

StoredTensor widened(const StoredTensor& tensor) {
  std::vector<float> values;
  for (const std::uint16_t bits : elements_of<std::uint16_t>(tensor)) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
  }
  return stored(DType::f32, tensor.shape, values);
}

TensorMap tensors_of(const Checkpoint& checkpoint) {
  TensorMap map;
  for (const TensorInfo& info : checkpoint.tensors()) {
    const Tensor tensor = checkpoint.tensor(info.name);
    map[info.name] = {tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
  }
  return map;
}

void write_tensors(const std::filesystem::path& path, const TensorMap& tensors,
                   const std::map<std::string, std::string>& metadata, const std::string& prefix) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) list.push_back({prefix + name, tensor.dtype, tensor.shape, tensor.bytes});
  write_safetensors(path, list, metadata);
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

Checkpoint save(const std::filesystem::path& folder, const Config& config, const TensorMap& tensors) {
  write_tensors(folder / "model.safetensors", tensors);
  write_text(folder / "config.json", config_json(config));
  return Checkpoint::open(folder);
}

void write_index(const std::filesystem::path& folder, const std::string& weight_map) {
  write_text(folder / kIndex, R"({"metadata": {"total_size": 0}, "weight_map": )" + weight_map + "}");
}

std::string shard_name(int layer) { return "model-layer-" + std::to_string(layer) + ".safetensors"; }

void write_shards(const std::filesystem::path& folder, const Config& config, const TensorMap& all) {
  std::map<int, TensorMap> shards;
  std::string map;
  for (const auto& [name, tensor] : all) {
    const int layer = layer_of_tensor(config, name);
    shards[layer][name] = tensor;
    map += (map.empty() ? "\"" : ", \"") + name + "\": \"" + shard_name(layer) + "\"";
  }
  for (const auto& [layer, tensors] : shards) write_tensors(folder / shard_name(layer), tensors);
  write_index(folder, "{" + map + "}");
  write_text(folder / "config.json", released_json(config));
}

std::vector<bf16> outputs(const Model& model) {
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

std::vector<bf16> outputs(const Checkpoint& checkpoint, const ModelOptions& options) {
  return outputs(Model(checkpoint, options));
}

void expect_same_outputs(const std::vector<bf16>& got, const std::vector<bf16>& want) {
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

std::vector<int> all_layers(const Config& config) {
  std::vector<int> layers(static_cast<std::size_t>(layer_count(config)));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

void expect_same_checkpoint(const Checkpoint& got, const Checkpoint& want) {
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

std::string name_of(const std::vector<TensorProblem>& problems, TensorProblem::Kind kind) {
  std::string names;
  for (const TensorProblem& problem : problems) {
    if (problem.kind == kind) names += (names.empty() ? "" : " ") + problem.name;
  }
  return names;
}

}  // namespace skim::test

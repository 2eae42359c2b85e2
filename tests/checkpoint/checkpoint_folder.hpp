// Checkpoints made of synthetic tensors in a folder of their own, and what a model makes of them.
#pragma once

#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "skim/skim.hpp"

namespace skim::test {

/// A folder that lasts as long as this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
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
StoredTensor widened(const StoredTensor& tensor);

TensorMap tensors_of(const Checkpoint& checkpoint);
void write_tensors(const std::filesystem::path& path, const TensorMap& tensors,
                   const std::map<std::string, std::string>& metadata = {}, const std::string& prefix = "");
void write_text(const std::filesystem::path& path, const std::string& text);

/// A checkpoint of one file with its configuration beside it.
Checkpoint save(const std::filesystem::path& folder, const Config& config, const TensorMap& tensors);

inline constexpr const char* kIndex = "model.safetensors.index.json";
/// `weight_map` is JSON.
void write_index(const std::filesystem::path& folder, const std::string& weight_map);
std::string shard_name(int layer);
/// One shard per layer, with an index and config.json as a released model has it.
void write_shards(const std::filesystem::path& folder, const Config& config, const TensorMap& all);

/// What all layers of a model make of a short sequence: 19 tokens and then 2.
std::vector<bf16> outputs(const Model& model);
std::vector<bf16> outputs(const Checkpoint& checkpoint, const ModelOptions& options = {});
/// Both models must give the same bits, and those must be numbers other than 0.
void expect_same_outputs(const std::vector<bf16>& got, const std::vector<bf16>& want);

std::vector<int> all_layers(const Config& config);
/// The tensors, one by one, and what a model computes from them.
void expect_same_checkpoint(const Checkpoint& got, const Checkpoint& want);
/// Names of the problems of this kind, separated by spaces.
std::string name_of(const std::vector<TensorProblem>& problems, TensorProblem::Kind kind);

}  // namespace skim::test

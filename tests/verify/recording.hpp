// Recorded cases in memory, to be tampered with and verified.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "formats/bf16.hpp"
#include "skim/safetensors.hpp"
#include "skim/verify.hpp"

namespace skim::test {

namespace fs = std::filesystem;

inline fs::path case_path(const std::string& name) { return fs::path(SKIM_TEST_CASES) / (name + ".safetensors"); }

/// A case file in memory that can be changed and written somewhere else.
class Recording {
 public:
  explicit Recording(const std::string& name) : path_(fs::temp_directory_path() / ("skim-verify-" + unique())) {
    const SafetensorsFile file = SafetensorsFile::open(case_path(name));
    metadata = file.metadata();
    for (const TensorInfo& info : file.tensors()) {
      const Tensor tensor = file.tensor(info.name);
      tensors[info.name] = {info, {tensor.bytes.begin(), tensor.bytes.end()}};
    }
  }
  /// Without anything in it.
  Recording() : path_(fs::temp_directory_path() / ("skim-verify-" + unique())) {}
  ~Recording() { fs::remove(path_); }

  void write() const {
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors)
      list.push_back({name, tensor.info.dtype, tensor.info.shape, tensor.bytes});
    write_safetensors(path_, list, metadata);
  }
  VerifyReport verify(VerifyOptions options = {}) const {
    write();
    options.threads = 1;
    return skim::verify(path_, options);
  }
  /// The weights in it, or that it names.
  Checkpoint checkpoint() const {
    write();
    return Checkpoint::open(path_);
  }

  /// Multiplies element `i` of a BF16 tensor, or every element for i = -1.
  void scale(const std::string& name, float factor, std::int64_t i = -1) {
    auto& bytes = tensors.at(name).bytes;
    auto* values = reinterpret_cast<bf16*>(bytes.data());
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(bytes.size() / 2); ++k) {
      if (i < 0 || i == k) values[k] = to_bf16(to_float(values[k]) * factor);
    }
  }
  template <class T>
  T* data(const std::string& name) {
    return reinterpret_cast<T*>(tensors.at(name).bytes.data());
  }
  std::int64_t width(const std::string& name) const { return tensors.at(name).info.shape.back(); }

  struct Entry {
    TensorInfo info;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Entry> tensors;
  std::map<std::string, std::string> metadata;

 private:
  static std::string unique() {
    static int counter = 0;
    return std::to_string(getpid()) + "-" + std::to_string(counter++) + ".safetensors";
  }
  fs::path path_;
};

inline const VerifyKind& kind(const VerifyReport& report, const std::string& name) {
  for (const VerifyKind& entry : report.kinds) {
    if (entry.name == name) return entry;
  }
  throw std::out_of_range("nothing compared for " + name);
}

}  // namespace skim::test

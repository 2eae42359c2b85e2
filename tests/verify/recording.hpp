// Recorded cases in memory, to be tampered with and verified.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cases.hpp"
#include "formats/bf16.hpp"
#include "skim/checkpoint.hpp"
#include "skim/safetensors.hpp"
#include "skim/verify.hpp"

namespace skim::test {

namespace fs = std::filesystem;

/// A case file in memory that can be changed and written somewhere else.
class Recording {
 public:
  explicit Recording(const std::string& name);
  /// Without anything in it.
  Recording();
  ~Recording() { fs::remove(path_); }

  void write() const;
  VerifyReport verify(VerifyOptions options = {}) const;
  /// The weights in it, or that it names.
  Checkpoint checkpoint() const;

  /// Multiplies element `i` of a BF16 tensor, or every element for i = -1.
  void scale(const std::string& name, float factor, std::int64_t i = -1);
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
  fs::path path_;
};

const VerifyKind& kind(const VerifyReport& report, const std::string& name);

}  // namespace skim::test

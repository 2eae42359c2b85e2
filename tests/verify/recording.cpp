#include "verify/recording.hpp"

#include <unistd.h>

#include <stdexcept>

namespace skim::test {
namespace {

std::string unique() {
  static int counter = 0;
  return std::to_string(getpid()) + "-" + std::to_string(counter++) + ".safetensors";
}

}  // namespace

Recording::Recording(const std::string& name) : Recording() {
  const SafetensorsFile file = SafetensorsFile::open(case_path(name));
  metadata = file.metadata();
  for (const TensorInfo& info : file.tensors()) {
    const Tensor tensor = file.tensor(info.name);
    tensors[info.name] = {info, {tensor.bytes.begin(), tensor.bytes.end()}};
  }
}

Recording::Recording() : path_(fs::temp_directory_path() / ("skim-verify-" + unique())) {}

void Recording::write() const {
  std::vector<TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor.info.dtype, tensor.info.shape, tensor.bytes});
  write_safetensors(path_, list, metadata);
}

VerifyReport Recording::verify(VerifyOptions options) const {
  write();
  options.threads = 1;
  return skim::verify(path_, options);
}

Checkpoint Recording::checkpoint() const {
  write();
  return Checkpoint::open(path_);
}

void Recording::scale(const std::string& name, float factor, std::int64_t i) {
  auto& bytes = tensors.at(name).bytes;
  auto* values = reinterpret_cast<bf16*>(bytes.data());
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(bytes.size() / 2); ++k) {
    if (i < 0 || i == k) values[k] = to_bf16(to_float(values[k]) * factor);
  }
}

const VerifyKind& kind(const VerifyReport& report, const std::string& name) {
  for (const VerifyKind& entry : report.kinds) {
    if (entry.name == name) return entry;
  }
  throw std::out_of_range("nothing compared for " + name);
}

}  // namespace skim::test

#include "skim/checkpoint.hpp"

#include <fmt/format.h>

#include "base/out_of_memory.hpp"
#include "base/text.hpp"
#include "checkpoint/case_format.hpp"
#include "checkpoint/file_source.hpp"
#include "checkpoint/layer_check.hpp"
#include "checkpoint/synthetic.hpp"
#include "files/file_bytes.hpp"
#include "skim/error.hpp"

namespace skim {

struct Checkpoint::Impl {
  Config config;
  std::shared_ptr<const TensorSource> source;
  std::vector<std::string> assumed = {};
};

namespace {

namespace fs = std::filesystem;

/// A small file may ask for made-up weights; the largest of the released model is a quarter of this.
constexpr std::int64_t kLargestFiller = std::int64_t{256} << 20;

Checkpoint::Impl open_case(const SafetensorsFile& file) {
  const auto& metadata = file.metadata();
  const std::string name = file.path().string();
  const auto text = [&](const char* key) -> const std::string& {
    const auto found = metadata.find(key);
    if (found == metadata.end()) {
      throw Error(ErrorCode::bad_file, fmt::format("{}: metadata has no '{}', expected in a case file", name, key));
    }
    return found->second;
  };
  const Config config = parse_case_config(text("model"), text("config"), name);
  if (!metadata.contains("weights")) return {config, make_file_source(file, "weights/")};
  if (text("weights") != "filler/1") {
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: weights are '{}', expected 'filler/1'", name, shortened(text("weights"))));
  }
  std::shared_ptr<const TensorSource> source = make_synthetic_source(config, 0);
  for (const std::string& tensor : source->names()) {
    const TensorInfo info = source->info(tensor);
    if (info.bytes > kLargestFiller) {
      throw Error(ErrorCode::bad_config, fmt::format("{}: {} would be made with {} bytes, expected at most {}", name,
                                                     tensor, info.bytes, kLargestFiller));
    }
  }
  return {config, std::move(source)};
}

/// What config.json says; the source of tensors is still to come.
Checkpoint::Impl configured(const fs::path& path) {
  std::vector<std::string> assumed;
  Config config = parse_config(read_text(path), path.string(), &assumed);
  return {std::move(config), nullptr, std::move(assumed)};
}

Checkpoint::Impl open_file(const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto format = file.metadata().find("format");
  if (format != file.metadata().end() && format->second == kCaseFormat) return open_case(file);
  const fs::path config = path.parent_path() / "config.json";
  Checkpoint::Impl impl = configured(config);
  impl.source = make_file_source(file, "");
  return impl;
}

Checkpoint::Impl open_folder(const fs::path& folder) {
  const fs::path config = folder / "config.json";
  const fs::path index = folder / "model.safetensors.index.json";
  const fs::path single = folder / "model.safetensors";
  Checkpoint::Impl impl = configured(config);
  std::error_code ignored;
  if (fs::exists(index, ignored)) {
    impl.source = make_sharded_source(index);
    return impl;
  }
  if (fs::exists(single, ignored)) {
    impl.source = make_file_source(SafetensorsFile::open(single), "");
    return impl;
  }
  throw Error(ErrorCode::io, fmt::format("{}: neither {} nor {}", folder.string(), index.filename().string(),
                                         single.filename().string()));
}

void require(const Checkpoint::Impl& impl, std::string_view name) {
  if (impl.source->contains(name)) return;
  throw Error(ErrorCode::tensor_mismatch, fmt::format("checkpoint: there is no tensor {}", name));
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw Error(ErrorCode::io, fmt::format("{}: no such file or folder", path.string()));
  }
  return Checkpoint(or_out_of_memory(path.native(), [&] {
    return std::make_shared<Impl>(fs::is_directory(path, ignored) ? open_folder(path) : open_file(path));
  }));
}

Checkpoint Checkpoint::synthetic(const Config& config, std::uint64_t seed) {
  validate(config);
  return or_out_of_memory("checkpoint", [&] {
    return Checkpoint(std::make_shared<Impl>(Impl{config, make_synthetic_source(config, seed)}));
  });
}

const Config& Checkpoint::config() const { return impl_->config; }
const std::vector<std::string>& Checkpoint::assumed() const { return impl_->assumed; }

std::vector<TensorInfo> Checkpoint::tensors() const {
  return or_out_of_memory("checkpoint", [&] {
    std::vector<TensorInfo> list;
    for (const std::string& name : impl_->source->names()) list.push_back(impl_->source->info(name));
    return list;
  });
}

bool Checkpoint::contains(std::string_view name) const { return impl_->source->contains(name); }

TensorInfo Checkpoint::info(std::string_view name) const {
  require(*impl_, name);
  return impl_->source->info(name);
}

Tensor Checkpoint::tensor(std::string_view name) const {
  require(*impl_, name);
  return or_out_of_memory(name, [&] { return impl_->source->load(name); });
}

std::vector<TensorProblem> Checkpoint::problems(std::span<const int> layers) const {
  return or_out_of_memory("checkpoint", [&] { return check_layers(impl_->config, *impl_->source, layers); });
}

}  // namespace skim

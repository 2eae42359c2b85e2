#include "checkpoint/file_source.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "files/file_bytes.hpp"
#include "files/json.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

namespace fs = std::filesystem;

class FileSource final : public TensorSource {
 public:
  FileSource(SafetensorsFile file, std::string prefix) : file_(std::move(file)), prefix_(std::move(prefix)) {
    for (const TensorInfo& info : file_.tensors()) {
      if (info.name.starts_with(prefix_)) infos_[info.name.substr(prefix_.size())] = info;
    }
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> list;
    for (const auto& [name, info] : infos_) list.push_back(name);
    return list;
  }
  bool contains(std::string_view name) const override { return infos_.find(name) != infos_.end(); }
  TensorInfo info(std::string_view name) const override {
    TensorInfo found = infos_.find(name)->second;
    found.name = name;
    return found;
  }
  Tensor load(std::string_view name) const override { return file_.tensor(prefix_ + std::string(name)); }

 private:
  SafetensorsFile file_;
  std::string prefix_;
  std::map<std::string, TensorInfo, std::less<>> infos_;
};

class ShardedSource final : public TensorSource {
 public:
  explicit ShardedSource(const fs::path& index) : folder_(index.parent_path()) {
    const std::string name = index.string();
    const JsonValue document = parse_json(read_text(index), name, ErrorCode::bad_file);
    const JsonObject map = JsonObject(document, name, ErrorCode::bad_file).object("weight_map");
    for (const auto& [tensor, file] : map.fields()) {
      const std::string shard = map.text(tensor);
      if (shard.empty() || shard.find('/') != std::string::npos || shard == "." || shard == "..") {
        map.fail(tensor, "the name of a file in the same folder");
      }
      shard_of_[tensor] = shard;
    }
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> list;
    for (const auto& [name, shard] : shard_of_) list.push_back(name);
    return list;
  }
  bool contains(std::string_view name) const override { return shard_of_.find(name) != shard_of_.end(); }
  TensorInfo info(std::string_view name) const override { return open_shard(name)->info(name); }
  Tensor load(std::string_view name) const override { return open_shard(name)->load(name); }

 private:
  std::shared_ptr<const FileSource> open_shard(std::string_view tensor) const {
    const std::string& shard = shard_of_.find(tensor)->second;
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const FileSource>& source = open_[shard];
    if (source == nullptr) source = std::make_shared<FileSource>(SafetensorsFile::open(folder_ / shard), "");
    if (!source->contains(tensor)) {
      throw Error(ErrorCode::bad_file,
                  fmt::format("{}: no tensor {}, though the index says so", (folder_ / shard).string(), tensor));
    }
    return source;
  }

  fs::path folder_;
  std::map<std::string, std::string, std::less<>> shard_of_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const FileSource>> open_;
};

}  // namespace

std::shared_ptr<const TensorSource> make_file_source(const SafetensorsFile& file, const std::string& prefix) {
  return std::make_shared<FileSource>(file, prefix);
}

std::shared_ptr<const TensorSource> make_sharded_source(const std::filesystem::path& index) {
  return std::make_shared<ShardedSource>(index);
}

}  // namespace skim

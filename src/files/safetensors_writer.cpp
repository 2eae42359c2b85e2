#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/dtype.hpp"
#include "base/out_of_memory.hpp"
#include "base/text.hpp"
#include "files/json.hpp"
#include "skim/error.hpp"
#include "skim/safetensors.hpp"

namespace skim {
namespace {

constexpr std::size_t kHeaderAlignment = 8;
constexpr std::size_t kMaxHeaderBytes = 100'000'000;  // MAX_HEADER_SIZE of the safetensors crate: readers refuse more.

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::invalid_argument, what); }

[[noreturn]] void io_failure(const std::filesystem::path& path, std::string_view what, int error) {
  throw Error(ErrorCode::io, fmt::format("{}: {}: {}", path.string(), what, std::generic_category().message(error)));
}

/// A new file beside `target`; gone at the end of its life unless it was moved over `target`.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) : target_(target) {
    static std::atomic<std::uint64_t> counter = 0;
    constexpr int kTries = 100;  // A name may be left over from a process that died, or from another machine.
    for (int i = 0; i < kTries && fd_ < 0; ++i) {
      // Not derived from the target's name, which may be as long as the file system allows.
      path_ = target.parent_path() / fmt::format(".skim-{}-{}.tmp", ::getpid(), counter++);
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ < 0 && errno != EEXIST && errno != EINTR) break;
    }
    if (fd_ < 0) io_failure(target_, "cannot create a temporary file beside it", errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!moved_) ::unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) io_failure(target_, "cannot write", written < 0 ? errno : EIO);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void move_to_target() {
    while (::fsync(fd_) != 0) {
      if (errno != EINTR) io_failure(target_, "cannot flush", errno);
    }
    // On Linux the descriptor is gone even if close is interrupted.
    if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) io_failure(target_, "cannot close", errno);
    if (::rename(path_.c_str(), target_.c_str()) != 0) io_failure(target_, "cannot rename a new file over it", errno);
    moved_ = true;
  }

 private:
  std::filesystem::path target_, path_;
  int fd_ = -1;
  bool moved_ = false;
};

/// Makes a rename last through a power cut.
void flush_directory(const std::filesystem::path& target) {
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) io_failure(folder, "cannot open the folder to flush it", errno);
  int result = 0;
  do {
    result = ::fsync(fd);
  } while (result != 0 && errno == EINTR);
  const int error = errno;
  ::close(fd);
  // Some file systems cannot flush a folder; there is nothing more to be done there.
  if (result != 0 && error != EINVAL && error != ENOTSUP) io_failure(folder, "cannot flush the folder", error);
}

/// Where a link points to. A rename would replace a device or pipe by a file, so those are refused.
std::filesystem::path replaceable(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as Linux
  std::error_code error;
  std::filesystem::path target = path;
  for (int i = 0; std::filesystem::is_symlink(target, error); ++i) {
    if (i == kMostLinks) io_failure(path, "cannot follow its links", ELOOP);
    target = target.parent_path() / std::filesystem::read_symlink(target, error);  // an absolute link stands alone
  }
  if (std::filesystem::exists(target, error) && !std::filesystem::is_regular_file(target, error)) {
    throw Error(ErrorCode::io, fmt::format("{}: exists and is not a regular file", path.string()));
  }
  return target;
}

/// Checks every tensor and returns them as they will lie in the file: the largest elements first, so that every tensor
/// starts at a multiple of its element size, then by name.
std::vector<const TensorToWrite*> file_order(std::span<const TensorToWrite> tensors) {
  std::vector<const TensorToWrite*> order;
  order.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) {
    const std::string where = fmt::format("tensor '{}'", shortened(tensor.name));
    if (tensor.name == "__metadata__") refuse(where + ": the format reserves this name");
    const std::int64_t expected = tensor_bytes(tensor.dtype, tensor.shape, where, ErrorCode::invalid_argument);
    if (!std::cmp_equal(tensor.size(), expected)) {
      refuse(fmt::format("{}: {} bytes given, expected {} for shape {} of {}", where, tensor.size(), expected,
                         shape_text(tensor.shape), dtype_name(tensor.dtype)));
    }
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  const auto twice =
      std::adjacent_find(order.begin(), order.end(), [](auto* a, auto* b) { return a->name == b->name; });
  if (twice != order.end()) refuse(fmt::format("tensor '{}' is given twice", shortened((*twice)->name)));
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return dtype_bits(a->dtype) > dtype_bits(b->dtype); });
  return order;
}

/// Length and JSON, padded with spaces so that the data starts at a multiple of 8.
std::string header_bytes(const std::vector<const TensorToWrite*>& order,
                         const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) json += fmt::format("{}:{},", json_string(key), json_string(value));
    json.back() = '}';
    json += ',';
  }
  std::size_t offset = 0;
  for (const TensorToWrite* tensor : order) {
    const std::size_t end = offset + tensor->size();
    json += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},", json_string(tensor->name),
                        dtype_name(tensor->dtype), fmt::join(tensor->shape, ","), offset, end);
    offset = end;
  }
  if (json.back() == ',') json.pop_back();
  json += '}';
  json.resize((json.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  if (json.size() > kMaxHeaderBytes) {
    refuse(fmt::format("names, shapes and metadata take {} bytes, the format allows {}", json.size(), kMaxHeaderBytes));
  }
  std::string header;
  for (std::size_t i = 0; i < 8; ++i) header += static_cast<char>(json.size() >> (8 * i) & 0xFF);
  return header + json;
}

}  // namespace

std::size_t TensorToWrite::size() const {
  std::size_t total = bytes.size();
  for (const std::span<const std::byte> piece : pieces) total += piece.size();
  return total;
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  or_out_of_memory(path.native(), [&] {
    const std::vector<const TensorToWrite*> order = file_order(tensors);
    const std::string header = header_bytes(order, metadata);
    const std::filesystem::path target = replaceable(path);
    TemporaryFile file(target);
    file.write(std::as_bytes(std::span(header)));
    for (const TensorToWrite* tensor : order) {
      file.write(tensor->bytes);
      for (const std::span<const std::byte> piece : tensor->pieces) file.write(piece);
    }
    file.move_to_target();
    flush_directory(target);
  });
}

}  // namespace skim

#include "skim/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/dtype.hpp"
#include "files/json.hpp"
#include "base/out_of_memory.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
/// The safetensors crate refuses longer headers (MAX_HEADER_SIZE).
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";

[[noreturn]] void bad_file(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::bad_file, fmt::format("{}: {}", file, what));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A whole file mapped read-only; without bytes if default constructed.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, std::size_t size) : address_(address), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (address_ != nullptr) ::munmap(address_, size_);
  }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(address_), size_}; }

 private:
  void* address_ = nullptr;
  std::size_t size_ = 0;
};

Mapping map_file(const std::filesystem::path& path) {
  const auto refuse = [&](std::string_view what, int error) {
    const ErrorCode code = error == ENOMEM ? ErrorCode::out_of_memory : ErrorCode::io;
    throw Error(code, fmt::format("{}: {}: {}", path.string(), what, std::generic_category().message(error)));
  };
  // Without O_NONBLOCK a FIFO would wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) refuse("cannot open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) refuse("cannot read its size", errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::io, fmt::format("{}: is {}, expected a regular file", path.string(),
                                           S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket"));
  }
  if (status.st_size == 0) bad_file(path.string(), "is empty, expected a safetensors file");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) refuse("cannot map", errno);
  return {address, size};
}

/// The JSON text behind the length.
std::string_view header_text(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    bad_file(file,
             fmt::format("{} bytes, expected a safetensors file (at least 8 bytes of header length)", bytes.size()));
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  if (length > kMaxHeaderBytes) {
    bad_file(file,
             fmt::format("header length {}, expected at most {} (is it a safetensors file?)", length, kMaxHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    bad_file(file, fmt::format("truncated: header of {} bytes, but only {} follow its length", length,
                               bytes.size() - kLengthBytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              static_cast<std::size_t>(length));
  if (!text.starts_with('{')) bad_file(file, "header does not start with '{' (is it a safetensors file?)");
  return text;
}

std::map<std::string, std::string> read_metadata(const json& value, const std::string& file) {
  const JsonObject object(value, fmt::format("{}: {}", file, kMetadataKey), ErrorCode::bad_file);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.get_ref<const json::object_t&>()) metadata.emplace(key, object.text(key));
  return metadata;
}

TensorInfo read_entry(const std::string& name, const json& value, const std::string& file, std::int64_t data_bytes) {
  const std::string where = fmt::format("{}: tensor '{}'", file, shortened(name));
  const JsonObject entry(value, where, ErrorCode::bad_file);
  for (const auto& [key, field] : value.get_ref<const json::object_t&>()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      bad_file(where, fmt::format("unknown key '{}', expected dtype, shape and data_offsets", shortened(key)));
    }
  }
  const std::optional<DType> dtype = dtype_from_name(entry.text("dtype"));
  if (!dtype) entry.fail("dtype", "one of " + dtype_names());
  TensorInfo info{name, *dtype, entry.sizes("shape"), 0, 0};
  const std::vector<std::int64_t> offsets = entry.sizes("data_offsets");
  if (offsets.size() != 2) entry.fail("data_offsets", "an array of 2: begin and end");
  const std::int64_t begin = offsets[0], end = offsets[1];
  if (begin > end) bad_file(where, fmt::format("data_offsets begin at {} and end before, at {}", begin, end));
  if (end > data_bytes) {
    bad_file(where, fmt::format("data ends at byte {}, but the file holds {} bytes of data", end, data_bytes));
  }
  const std::int64_t expected = tensor_bytes(info.dtype, info.shape, where, ErrorCode::bad_file);
  if (end - begin != expected) {
    bad_file(where, fmt::format("{} bytes of data, expected {} for shape {} of {}", end - begin, expected,
                                shape_text(info.shape), dtype_name(info.dtype)));
  }
  info.offset = begin;
  info.bytes = end - begin;
  return info;
}

/// Tensors in order of their data must follow one another from the first byte to the last.
void check_coverage(const std::vector<TensorInfo>& tensors, const std::string& file, std::int64_t data_bytes) {
  std::int64_t covered = 0;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& info : tensors) {
    if (info.offset < covered) {
      bad_file(file,
               fmt::format("tensors '{}' (bytes {} to {}) and '{}' (bytes {} to {}) overlap", shortened(previous->name),
                           previous->offset, covered, shortened(info.name), info.offset, info.offset + info.bytes));
    }
    if (info.offset > covered) {
      const std::string after = previous == nullptr ? "" : fmt::format("after tensor '{}' ", shortened(previous->name));
      bad_file(file, fmt::format("bytes {} to {} {}and before tensor '{}' belong to no tensor", covered, info.offset,
                                 after, shortened(info.name)));
    }
    covered += info.bytes;
    previous = &info;
  }
  if (covered < data_bytes) {
    const std::string after = previous == nullptr
                                  ? "in a file without tensors"
                                  : fmt::format("after the last tensor '{}'", shortened(previous->name));
    bad_file(file, fmt::format("bytes {} to {} {} belong to no tensor", covered, data_bytes, after));
  }
}

struct Contents {
  std::span<const std::byte> data;  ///< Everything behind the header.
  std::vector<TensorInfo> tensors;  ///< In order of their data.
  std::map<std::string, std::string> metadata;
};

Contents read_contents(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text = header_text(bytes, file);
  Contents contents;
  contents.data = bytes.subspan(kLengthBytes + text.size());
  const auto data_bytes = static_cast<std::int64_t>(contents.data.size());
  const json header = parse_json(text, fmt::format("{}: header", file), ErrorCode::bad_file);
  for (const auto& [name, value] : header.get_ref<const json::object_t&>()) {
    if (name == kMetadataKey) {
      contents.metadata = read_metadata(value, file);
    } else {
      contents.tensors.push_back(read_entry(name, value, file, data_bytes));
    }
  }
  std::sort(contents.tensors.begin(), contents.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  check_coverage(contents.tensors, file, data_bytes);
  return contents;
}

}  // namespace

struct SafetensorsFile::Impl {
  Impl(Mapping mapped, std::span<const std::byte> bytes, std::filesystem::path file)
      : mapping(std::move(mapped)), path(std::move(file)), contents(read_contents(bytes, path.string())) {
    for (const TensorInfo& info : contents.tensors) by_name.emplace(info.name, &info);
  }

  Mapping mapping;  ///< Empty if the bytes belong to the caller.
  std::filesystem::path path;
  Contents contents;
  std::unordered_map<std::string_view, const TensorInfo*> by_name;  ///< Into contents.tensors.
};

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  return or_out_of_memory(path.string(), [&] {
    Mapping mapping = map_file(path);
    const std::span<const std::byte> bytes = mapping.bytes();
    return SafetensorsFile(std::make_shared<const Impl>(std::move(mapping), bytes, path));
  });
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  return or_out_of_memory(name, [&] { return SafetensorsFile(std::make_shared<const Impl>(Mapping(), bytes, name)); });
}

const std::filesystem::path& SafetensorsFile::path() const { return impl_->path; }

const std::vector<TensorInfo>& SafetensorsFile::tensors() const { return impl_->contents.tensors; }

const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return impl_->contents.metadata; }

bool SafetensorsFile::contains(std::string_view name) const { return impl_->by_name.contains(name); }

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const auto found = impl_->by_name.find(name);
  if (found == impl_->by_name.end()) {
    throw Error(ErrorCode::tensor_mismatch,
                fmt::format("{}: there is no tensor '{}'", impl_->path.string(), shortened(name)));
  }
  const TensorInfo& info = *found->second;
  const auto bytes =
      impl_->contents.data.subspan(static_cast<std::size_t>(info.offset), static_cast<std::size_t>(info.bytes));
  return Tensor{info.dtype, info.shape, bytes, impl_};
}

}  // namespace skim

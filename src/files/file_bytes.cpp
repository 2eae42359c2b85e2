#include "files/file_bytes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "skim/error.hpp"

namespace skim {
namespace {

constexpr std::uint64_t kLargestText = 100 << 20;
constexpr std::size_t kLargestRead = std::size_t{1} << 30;  // Linux reads at most 2 GiB at a time

[[noreturn]] void io_failure(const std::string& file, std::string_view what, int error) {
  const ErrorCode code = error == ENOMEM ? ErrorCode::out_of_memory : ErrorCode::io;
  throw Error(code, fmt::format("{}: {}: {}", file, what, std::generic_category().message(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
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

struct OpenFile {
  Descriptor descriptor;
  std::uint64_t size = 0;
};

OpenFile open_regular(const std::filesystem::path& path) {
  const std::string& name = path.native();
  // Without O_NONBLOCK a FIFO would wait for a writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) io_failure(name, "cannot open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) io_failure(name, "cannot read its size", errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::io, fmt::format("{}: is {}, expected a regular file", name,
                                           S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket"));
  }
  return {std::move(file), static_cast<std::uint64_t>(status.st_size)};
}

}  // namespace

struct FileBytes::Impl {
  std::string name;
  std::uint64_t size = 0;
  Descriptor descriptor;
  Mapping mapping;
  std::span<const std::byte> memory;  ///< Of the mapping or the caller; empty if bytes are read from the descriptor.
};

FileBytes FileBytes::open(const std::filesystem::path& path) {
  OpenFile file = open_regular(path);
  return FileBytes(
      std::make_shared<const Impl>(Impl{path.native(), file.size, std::move(file.descriptor), Mapping(), {}}));
}

FileBytes FileBytes::map(const std::filesystem::path& path) {
  const OpenFile file = open_regular(path);
  if (file.size == 0)
    return FileBytes(std::make_shared<const Impl>(Impl{path.native(), 0, Descriptor(), Mapping(), {}}));
  void* address = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (address == MAP_FAILED) io_failure(path.native(), "cannot map", errno);
  Mapping mapping(address, file.size);
  const std::span<const std::byte> bytes = mapping.bytes();
  return FileBytes(
      std::make_shared<const Impl>(Impl{path.native(), file.size, Descriptor(), std::move(mapping), bytes}));
}

FileBytes FileBytes::of_memory(std::span<const std::byte> bytes, const std::string& name) {
  return FileBytes(std::make_shared<const Impl>(Impl{name, bytes.size(), Descriptor(), Mapping(), bytes}));
}

const std::string& FileBytes::name() const { return impl_->name; }
std::uint64_t FileBytes::size() const { return impl_->size; }

void FileBytes::read(std::uint64_t offset, std::span<std::byte> into) const {
  if (into.empty()) return;
  if (impl_->descriptor.get() < 0) {
    std::memcpy(into.data(), impl_->memory.data() + offset, into.size());
    return;
  }
  while (!into.empty()) {
    const std::size_t wanted = std::min(into.size(), kLargestRead);
    const ssize_t count = ::pread(impl_->descriptor.get(), into.data(), wanted, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) io_failure(impl_->name, "cannot read", errno);
    if (count == 0) {
      throw Error(ErrorCode::bad_file,
                  fmt::format("{}: has become shorter: it ends at byte {}, but had {} bytes when it was opened",
                              impl_->name, offset, impl_->size));
    }
    offset += static_cast<std::uint64_t>(count);
    into = into.subspan(static_cast<std::size_t>(count));
  }
}

OwnedBytes FileBytes::read(std::uint64_t offset, std::uint64_t count) const {
  if (impl_->descriptor.get() < 0) return {impl_->memory.subspan(offset, count), impl_};
  const std::shared_ptr<std::byte[]> block(new std::byte[count]);  // not cleared: make_shared would
  const std::span<std::byte> bytes(block.get(), count);
  read(offset, bytes);
  return {bytes, block};
}

std::string read_text(const std::filesystem::path& path) {
  const FileBytes file = FileBytes::open(path);
  if (file.size() > kLargestText) {
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: {} bytes, expected at most {}", path.native(), file.size(), kLargestText));
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace skim

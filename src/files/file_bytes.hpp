// Bytes of a file, read when they are asked for, or of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace skim {

/// A range of bytes, and what keeps it alive (nothing for memory of the caller's).
struct OwnedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// A regular file or a piece of memory. A copy shares the open file. Only what is read takes memory or address space.
class FileBytes {
 public:
  /// Throws Error{io} if there is no such file, or if it is a folder, device, pipe or socket.
  static FileBytes open(const std::filesystem::path& path);
  /// The same, mapped whole: a read copies nothing, but the file must not shrink.
  static FileBytes map(const std::filesystem::path& path);
  /// Memory that outlives everything read from it; `name` appears in messages.
  static FileBytes of_memory(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const;
  std::uint64_t size() const;  ///< When it was opened.
  /// Copies bytes [offset, offset + into.size()), which lie within size(). Throws Error{bad_file} if the file has
  /// become shorter, Error{io}.
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  /// The same bytes in memory of their own, or where they lie.
  OwnedBytes read(std::uint64_t offset, std::uint64_t count) const;

 private:
  struct Impl;
  explicit FileBytes(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// The whole of a small text file. Throws Error{io} if it cannot be read, Error{bad_file} beyond 100 MiB.
std::string read_text(const std::filesystem::path& path);

}  // namespace skim

// Reading and writing the safetensors format: an 8-byte little-endian header length, a JSON header, then tensor bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skim/tensor.hpp"

namespace skim {

/// Where a tensor lies in a file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::u8;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< First byte, counted from the end of the header.
  std::int64_t bytes = 0;
};

/// An open file. The whole header is checked when it is opened: its length, the JSON (no key twice), every dtype, shape
/// product and offset; tensors must cover the data without gap or overlap. Nothing outside the file is ever read. A
/// copy shares the open file.
class SafetensorsFile {
 public:
  /// Reads the header; tensors are read when they are asked for, into memory of their own. Throws Error{io} if the file
  /// cannot be read, Error{bad_file} naming the tensor and what is wrong with it.
  static SafetensorsFile open(const std::filesystem::path& path);
  /// The same with the whole file mapped: tensors lie in the mapping. If the file becomes shorter while it is mapped,
  /// touching what is gone ends the process (SIGBUS). Throws like open, and Error{out_of_memory} without address space.
  static SafetensorsFile map(const std::filesystem::path& path);
  /// The same checks on bytes in memory, which must outlive the result and every Tensor taken from it; `name` appears
  /// in messages.
  static SafetensorsFile parse(std::span<const std::byte> bytes, const std::string& name);

  const std::filesystem::path& path() const;
  /// In order of their data.
  const std::vector<TensorInfo>& tensors() const;
  const std::map<std::string, std::string>& metadata() const;
  bool contains(std::string_view name) const;
  /// dtype, shape and place. Throws Error{tensor_mismatch} if there is no such tensor.
  const TensorInfo& info(std::string_view name) const;
  /// Throws Error{tensor_mismatch} if there is no such tensor, Error{bad_file} if the file has become shorter,
  /// Error{io}, Error{out_of_memory}.
  Tensor tensor(std::string_view name) const;
  /// Copies bytes [first, first + into.size()) of a tensor. Throws like tensor, and Error{invalid_argument} for bytes
  /// that it does not have.
  void read(std::string_view name, std::int64_t first, std::span<std::byte> into) const;

 private:
  struct Impl;
  explicit SafetensorsFile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// A tensor to be written: bytes are row-major, little endian, exactly as many as dtype and shape need.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::u8;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  std::vector<std::span<const std::byte>> pieces = {};  ///< Follow `bytes`.

  std::size_t size() const;  ///< Of everything.
};

/// Writes a file under a temporary name in the same folder, flushes it and renames it over `path`: at any moment there
/// is the old file or the whole new one. Tensors are ordered by descending element size and then name, the header is
/// padded to 8 bytes. Throws Error{invalid_argument} for bytes that do not fit their shape or a name used twice,
/// Error{io} otherwise.
/// A link is followed; a device, pipe or folder is not replaced.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace skim

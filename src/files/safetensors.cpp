#include "skim/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/dtype.hpp"
#include "base/out_of_memory.hpp"
#include "base/text.hpp"
#include "files/file_bytes.hpp"
#include "files/json.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

constexpr std::size_t kLengthBytes = 8;
/// The safetensors crate refuses longer headers (MAX_HEADER_SIZE).
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";

[[noreturn]] void bad_file(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::bad_file, fmt::format("{}: {}", file, what));
}

/// Checked before memory is taken for the header.
std::size_t header_length(const FileBytes& file) {
  if (file.size() == 0) bad_file(file.name(), "is empty, expected a safetensors file");
  if (file.size() < kLengthBytes) {
    bad_file(file.name(),
             fmt::format("{} bytes, expected a safetensors file (at least 8 bytes of header length)", file.size()));
  }
  std::byte bytes[kLengthBytes];
  file.read(0, bytes);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  if (length > kMaxHeaderBytes) {
    bad_file(file.name(),
             fmt::format("header length {}, expected at most {} (is it a safetensors file?)", length, kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    bad_file(file.name(), fmt::format("truncated: header of {} bytes, but only {} follow its length", length,
                                      file.size() - kLengthBytes));
  }
  return static_cast<std::size_t>(length);
}

/// The JSON text behind the length.
std::string header_text(const FileBytes& file) {
  std::string text(header_length(file), '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{')) bad_file(file.name(), "header does not start with '{' (is it a safetensors file?)");
  return text;
}

std::map<std::string, std::string> read_metadata(const JsonValue& value, const std::string& file) {
  const JsonObject object(value, fmt::format("{}: {}", file, kMetadataKey), ErrorCode::bad_file);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : object.fields()) metadata.emplace(key, object.text(key));
  return metadata;
}

TensorInfo read_entry(const std::string& name, const JsonValue& value, const std::string& file,
                      std::int64_t data_bytes) {
  const std::string where = fmt::format("{}: tensor '{}'", file, shortened(name));
  const JsonObject entry(value, where, ErrorCode::bad_file);
  for (const auto& [key, field] : entry.fields()) {
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
  std::uint64_t data_start = 0;     ///< First byte behind the header.
  std::vector<TensorInfo> tensors;  ///< In order of their data.
  std::map<std::string, std::string> metadata;
};

Contents read_contents(const FileBytes& file) {
  const std::string text = header_text(file);
  Contents contents;
  contents.data_start = kLengthBytes + text.size();
  const auto data_bytes = static_cast<std::int64_t>(file.size() - contents.data_start);
  const std::string where = file.name() + ": header";
  const JsonValue header = parse_json(text, where, ErrorCode::bad_file);
  for (const auto& [name, value] : JsonObject(header, where, ErrorCode::bad_file).fields()) {
    if (name == kMetadataKey) {
      contents.metadata = read_metadata(value, file.name());
    } else {
      contents.tensors.push_back(read_entry(name, value, file.name(), data_bytes));
    }
  }
  std::sort(contents.tensors.begin(), contents.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  check_coverage(contents.tensors, file.name(), data_bytes);
  return contents;
}

}  // namespace

struct SafetensorsFile::Impl {
  Impl(FileBytes bytes, std::filesystem::path name)
      : file(std::move(bytes)), path(std::move(name)), contents(read_contents(file)) {
    for (const TensorInfo& info : contents.tensors) by_name.emplace(info.name, &info);
  }

  const TensorInfo& find(std::string_view name) const {
    const auto found = by_name.find(name);
    if (found != by_name.end()) return *found->second;
    throw Error(ErrorCode::tensor_mismatch, fmt::format("{}: there is no tensor '{}'", file.name(), shortened(name)));
  }
  std::uint64_t first_byte(const TensorInfo& info) const {
    return contents.data_start + static_cast<std::uint64_t>(info.offset);
  }

  FileBytes file;
  std::filesystem::path path;
  Contents contents;
  std::unordered_map<std::string_view, const TensorInfo*> by_name;  ///< Into contents.tensors.
};

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  return or_out_of_memory(path.native(),
                          [&] { return SafetensorsFile(std::make_shared<const Impl>(FileBytes::open(path), path)); });
}

SafetensorsFile SafetensorsFile::map(const std::filesystem::path& path) {
  return or_out_of_memory(path.native(),
                          [&] { return SafetensorsFile(std::make_shared<const Impl>(FileBytes::map(path), path)); });
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  return or_out_of_memory(
      name, [&] { return SafetensorsFile(std::make_shared<const Impl>(FileBytes::of_memory(bytes, name), name)); });
}

const std::filesystem::path& SafetensorsFile::path() const { return impl_->path; }

const std::vector<TensorInfo>& SafetensorsFile::tensors() const { return impl_->contents.tensors; }

const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return impl_->contents.metadata; }

bool SafetensorsFile::contains(std::string_view name) const { return impl_->by_name.contains(name); }

const TensorInfo& SafetensorsFile::info(std::string_view name) const {
  return or_out_of_memory(name, [&]() -> const TensorInfo& { return impl_->find(name); });
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  return or_out_of_memory(name, [&] {
    const TensorInfo& info = impl_->find(name);
    OwnedBytes found = impl_->file.read(impl_->first_byte(info), static_cast<std::uint64_t>(info.bytes));
    return Tensor{info.dtype, info.shape, found.bytes, std::move(found.owner)};
  });
}

void SafetensorsFile::read(std::string_view name, std::int64_t first, std::span<std::byte> into) const {
  or_out_of_memory(name, [&] {
    const TensorInfo& info = impl_->find(name);
    if (first < 0 || first > info.bytes || std::cmp_greater(into.size(), info.bytes - first)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} bytes from byte {} of tensor '{}' asked for, which has {}", impl_->file.name(),
                              into.size(), first, shortened(name), info.bytes));
    }
    impl_->file.read(impl_->first_byte(info) + static_cast<std::uint64_t>(first), into);
  });
}

}  // namespace skim

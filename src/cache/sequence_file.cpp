#include "cache/sequence_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>

#include "base/digest.hpp"
#include "base/dtype.hpp"
#include "base/text.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "skim-sequence/1";

using Pieces = std::vector<std::span<const std::byte>>;

/// Kinds of rows of one layer, in the order in which they are saved.
enum class Part { rows, keys, window, open };
constexpr Part kParts[] = {Part::rows, Part::keys, Part::window, Part::open};

std::string_view part_name(Part part) {
  switch (part) {
    case Part::rows:
      return "rows";
    case Part::keys:
      return "keys";
    case Part::window:
      return "window";
    case Part::open:
      return "open";
  }
  return "";
}

std::int64_t row_bytes(const LayerLayout& layout, Part part) {
  switch (part) {
    case Part::rows:
      return layout.ratio > 0 ? layout.compressed_row.bytes() : 0;
    case Part::keys:
      return layout.ratio > 0 ? layout.key_row.bytes() : 0;
    case Part::window:
      return layout.window > 0 ? layout.window_row.bytes() : 0;
    case Part::open:
      return layout.ratio > 1 ? layout.open_row_bytes() : 0;
  }
  return 0;
}

/// Tokens that a ring of `slots` still holds. Those that the next token `needs` are among them even if the sequence was
/// longer before: they were written since.
std::int64_t held(const Sequence& sequence, std::int64_t slots, std::int64_t needs) {
  return std::max(needs, sequence.length - std::clamp<std::int64_t>(sequence.reached - slots, 0, sequence.length));
}

std::int64_t window_needs(const LayerLayout& layout, std::int64_t length) {
  return std::min(length, layout.window - 1);
}

Pieces paged_pieces(const ConstPagedRows& rows, std::int64_t count) {
  Pieces pieces;
  for (std::int64_t first = 0; first < count; first += rows.rows_per_page) {
    const std::int64_t part = std::min(rows.rows_per_page, count - first);
    pieces.push_back({rows.row(first), static_cast<std::size_t>(part * rows.row_bytes)});
  }
  return pieces;
}

/// The last `count` tokens of a ring, oldest first.
Pieces ring_pieces(const std::byte* ring, std::int64_t slots, std::int64_t bytes, std::int64_t length,
                   std::int64_t count) {
  Pieces pieces;
  for (std::int64_t position = length - count; position < length; ++position) {
    pieces.push_back({ring + position % slots * bytes, static_cast<std::size_t>(bytes)});
  }
  return pieces;
}

Pieces pieces_of(const Sequence& sequence, const LayerLayout& layout, const LayerCache& cache, Part part) {
  const std::int64_t bytes = row_bytes(layout, part);
  switch (part) {
    case Part::rows:
      return paged_pieces(cache.compressed.rows(), sequence.length / layout.ratio);
    case Part::keys:
      return paged_pieces(cache.keys.rows(), sequence.length / layout.ratio);
    case Part::window:
      return ring_pieces(cache.ring.data(), cache.ring_rows, bytes, sequence.length,
                         held(sequence, cache.ring_rows, window_needs(layout, sequence.length)));
    case Part::open:
      return ring_pieces(cache.open.data(), cache.open_rows, bytes, sequence.length,
                         held(sequence, cache.open_rows, sequence.length % layout.ratio));
  }
  return {};
}

std::string tensor_name(int layer, Part part) { return fmt::format("layer.{}.{}", layer, part_name(part)); }

/// Of all metadata but the checksum itself, and of every tensor in order of its name.
class Checksum {
 public:
  explicit Checksum(const std::map<std::string, std::string>& metadata) {
    for (const auto& [key, value] : metadata) {
      if (key == "checksum") continue;
      digest_.add_text(key);
      digest_.add_text(value);
    }
  }
  void add(std::string_view name, std::span<const std::int64_t> shape, const Pieces& pieces) {
    digest_.add_text(fmt::format("{} {}", name, shape_text(shape)));
    for (const std::span<const std::byte> piece : pieces) digest_.add(piece);
  }
  std::string hex() const { return digest_.hex(); }

 private:
  Digest digest_;
};

/// One open file that is being checked and taken apart.
class Loader {
 public:
  Loader(const SequenceFormat& format, const fs::path& path)
      : format_(format), name_(path.string()), file_(SafetensorsFile::map(path)) {}

  Sequence load(Memory& memory) {
    check_identity();
    read_length();
    Sequence sequence(format_.layout, memory, format_.page_rows, format_.limits);
    sequence.length = sequence.reached = length_;
    std::size_t expected = 0;
    for (const LayerLayout& layout : format_.layout.layers) {
      for (const Part part : kParts) expected += row_bytes(layout, part) > 0 ? 1 : 0;
    }
    if (file_.tensors().size() != expected) {
      refuse(fmt::format("{} tensors, expected {}", file_.tensors().size(), expected));
    }
    for (const LayerLayout& layout : format_.layout.layers) check_layer(layout);
    check_checksum();
    if (length_ == 0) return sequence;
    for (std::size_t i = 0; i < sequence.layers.size(); ++i) {
      fill(format_.layout.layers[i], sequence.layers[i], memory, sequence.reached);
    }
    return sequence;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::bad_file, fmt::format("{}: {}", name_, what));
  }

  const std::string& metadata(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end()) refuse(fmt::format("metadata has no '{}', expected in a saved sequence", key));
    return found->second;
  }

  void require(const std::string& key, std::string_view expected, std::string_view meaning) const {
    if (metadata(key) == expected) return;
    refuse(fmt::format("{} is '{}', expected '{}' ({})", key, shortened(metadata(key)), expected, meaning));
  }

  void check_identity() const {
    require("format", kFormat, "the version this library reads");
    require("model", format_.layout.model, "the model of the cache");
    require("fingerprint", format_.layout.fingerprint, "configuration, layers and weights of the cache's model");
    require("yarn", format_.yarn() ? "on" : "off", "it was saved from a cache for contexts that are rotated otherwise");
  }

  void read_length() {
    const std::string& text = metadata("tokens");
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length_);
    if (error != std::errc() || end != text.data() + text.size() || length_ < 0) {
      refuse(fmt::format("tokens is '{}', expected a number", shortened(text)));
    }
    if (length_ > format_.limits.max_tokens) {
      throw Error(ErrorCode::limit_exceeded,
                  fmt::format("{}: holds {} tokens, but max_tokens is {}", name_, length_, format_.limits.max_tokens));
    }
  }

  Tensor tensor(const LayerLayout& layout, Part part) const {
    const std::string name = tensor_name(layout.layer, part);
    if (!file_.contains(name)) refuse(fmt::format("no tensor {}", name));
    return file_.tensor(name);
  }

  void check_layer(const LayerLayout& layout) const {
    for (const Part part : kParts) {
      const std::int64_t bytes = row_bytes(layout, part);
      if (bytes == 0) continue;
      // At least what the next token needs; more only serves rolling back.
      std::int64_t fewest = 0, most = length_;
      if (part == Part::rows || part == Part::keys) fewest = most = length_ / layout.ratio;
      if (part == Part::window) fewest = window_needs(layout, length_);
      if (part == Part::open) fewest = length_ % layout.ratio;
      const Tensor found = tensor(layout, part);
      if (found.dtype == DType::u8 && found.shape.size() == 2 && found.shape[1] == bytes && found.shape[0] >= fewest &&
          found.shape[0] <= most) {
        continue;
      }
      refuse(fmt::format("{} is {} {}, expected U8 [{} to {}, {}]", tensor_name(layout.layer, part),
                         dtype_name(found.dtype), found.shape_text(), fewest, most, bytes));
    }
  }

  void check_checksum() const {
    Checksum checksum(file_.metadata());
    for (const LayerLayout& layout : format_.layout.layers) {
      for (const Part part : kParts) {
        if (row_bytes(layout, part) == 0) continue;
        const Tensor found = tensor(layout, part);
        checksum.add(tensor_name(layout.layer, part), found.shape, {found.bytes});
      }
    }
    require("checksum", checksum.hex(), "the file is damaged");
  }

  void map_pages(const LayerLayout& layout, Part part, PageTable& table) const {
    const Tensor rows = tensor(layout, part);
    const auto step = static_cast<std::size_t>(table.page_bytes());
    for (std::size_t first = 0; first < rows.bytes.size(); first += step) {
      // Mapped pages are copied before anything is written to them.
      table.map(const_cast<std::byte*>(rows.bytes.data()) + first, rows.owner);
    }
  }

  /// Puts the saved tokens into a ring, as many as it holds. Returns the length for which such a ring would hold them.
  std::int64_t fill_ring(const LayerLayout& layout, Part part, Buffer& ring, std::int64_t slots, Memory& memory) const {
    const std::int64_t bytes = row_bytes(layout, part);
    if (bytes == 0) return 0;
    ring = Buffer(memory, slots * bytes);
    const Tensor saved = tensor(layout, part);
    const std::int64_t count = std::min(saved.shape[0], slots);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t position = length_ - count + i;
      std::memcpy(ring.data() + position % slots * bytes, saved.bytes.data() + (saved.shape[0] - count + i) * bytes,
                  static_cast<std::size_t>(bytes));
    }
    return count < length_ ? length_ - count + slots : length_;
  }

  void fill(const LayerLayout& layout, LayerCache& cache, Memory& memory, std::int64_t& reached) const {
    if (layout.ratio > 0) {
      map_pages(layout, Part::rows, cache.compressed);
      map_pages(layout, Part::keys, cache.keys);
    }
    reached = std::max(reached, fill_ring(layout, Part::window, cache.ring, cache.ring_rows, memory));
    reached = std::max(reached, fill_ring(layout, Part::open, cache.open, cache.open_rows, memory));
  }

  const SequenceFormat& format_;
  std::string name_;
  SafetensorsFile file_;
  std::int64_t length_ = 0;
};

}  // namespace

void save_sequence(const Sequence& sequence, const SequenceFormat& format, const fs::path& path) {
  std::map<std::string, std::string> metadata = {{"format", std::string(kFormat)},
                                                 {"model", format.layout.model},
                                                 {"fingerprint", format.layout.fingerprint},
                                                 {"yarn", format.yarn() ? "on" : "off"},
                                                 {"tokens", std::to_string(sequence.length)}};
  std::vector<TensorToWrite> tensors;
  Checksum checksum(metadata);
  for (std::size_t i = 0; i < sequence.layers.size(); ++i) {
    const LayerLayout& layout = format.layout.layers[i];
    for (const Part part : kParts) {
      const std::int64_t bytes = row_bytes(layout, part);
      if (bytes == 0) continue;
      TensorToWrite tensor{tensor_name(layout.layer, part), DType::u8, {0, bytes}, {}};
      if (sequence.length > 0) tensor.pieces = pieces_of(sequence, layout, sequence.layers[i], part);
      for (const std::span<const std::byte> piece : tensor.pieces) {
        tensor.shape[0] += static_cast<std::int64_t>(piece.size()) / bytes;
      }
      checksum.add(tensor.name, tensor.shape, tensor.pieces);
      tensors.push_back(std::move(tensor));
    }
  }
  metadata["checksum"] = checksum.hex();
  write_safetensors(path, tensors, metadata);
}

Sequence load_sequence(const SequenceFormat& format, Memory& memory, const fs::path& path) {
  return Loader(format, path).load(memory);
}

}  // namespace skim

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

Pieces paged_pieces(const ConstPagedRows& rows, std::int64_t count) {
  Pieces pieces;
  for (std::int64_t first = 0; first < count; first += rows.rows_per_page) {
    const std::int64_t part = std::min(rows.rows_per_page, count - first);
    pieces.push_back({rows.row(first), static_cast<std::size_t>(part * rows.row_bytes)});
  }
  return pieces;
}

/// Everything that a ring holds of a sequence of `length` tokens, oldest first.
Pieces ring_pieces(const Ring& ring, std::int64_t length) {
  Pieces pieces;
  for (std::int64_t position = ring.first(); position < length; ++position) {
    pieces.push_back({ring.row(position), static_cast<std::size_t>(ring.row_bytes())});
  }
  return pieces;
}

/// Rows of one kind of one layer, as a file has them: a tensor of bytes [rows, row_bytes].
struct SavedRows {
  std::string name;
  std::int64_t row_bytes = 0;
  std::int64_t fewest = 0, most = 0;  ///< Rows that a sequence of a given length may have saved.
};

SavedRows saved_rows(int layer, const TableLayout& table, std::int64_t length) {
  const std::int64_t rows = table.rows(length);
  return {fmt::format("layer.{}.{}", layer, table.name), table.row.bytes(), rows, rows};
}

/// At least what the next token needs; more only serves rolling back.
SavedRows saved_rows(int layer, const RingLayout& ring, std::int64_t length) {
  return {fmt::format("layer.{}.{}", layer, ring.name), ring.row_bytes, ring.needs(length), length};
}

/// In the order of the file: layer by layer, tables before rings.
std::vector<SavedRows> all_saved_rows(const CacheLayout& layout, std::int64_t length) {
  std::vector<SavedRows> all;
  for (const LayerLayout& layer : layout.layers) {
    for (const TableLayout& table : layer.tables) all.push_back(saved_rows(layer.layer, table, length));
    for (const RingLayout& ring : layer.rings) all.push_back(saved_rows(layer.layer, ring, length));
  }
  return all;
}

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
    const std::vector<SavedRows> expected = all_saved_rows(format_.layout, length_);
    if (file_.tensors().size() != expected.size()) {
      refuse(fmt::format("{} tensors, expected {}", file_.tensors().size(), expected.size()));
    }
    for (const SavedRows& rows : expected) check_rows(rows);
    check_checksum(expected);
    Sequence sequence(format_.layout, memory, format_.page_rows, format_.limits);
    sequence.length = length_;
    if (length_ == 0) return sequence;
    for (const LayerLayout& layer : format_.layout.layers) {
      for (const TableLayout& table : layer.tables) map_pages(layer.layer, table, sequence.tables[table.index]);
      for (const RingLayout& ring : layer.rings) {
        sequence.rings[ring.index].restore(length_, file_.tensor(saved_rows(layer.layer, ring, length_).name).bytes);
      }
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

  void check_rows(const SavedRows& rows) const {
    if (!file_.contains(rows.name)) refuse(fmt::format("no tensor {}", rows.name));
    const Tensor found = file_.tensor(rows.name);
    if (found.dtype == DType::u8 && found.shape.size() == 2 && found.shape[1] == rows.row_bytes &&
        found.shape[0] >= rows.fewest && found.shape[0] <= rows.most) {
      return;
    }
    refuse(fmt::format("{} is {} {}, expected U8 [{} to {}, {}]", rows.name, dtype_name(found.dtype),
                       found.shape_text(), rows.fewest, rows.most, rows.row_bytes));
  }

  void check_checksum(const std::vector<SavedRows>& all) const {
    Checksum checksum(file_.metadata());
    for (const SavedRows& rows : all) {
      const Tensor found = file_.tensor(rows.name);
      checksum.add(rows.name, found.shape, {found.bytes});
    }
    require("checksum", checksum.hex(), "the file is damaged");
  }

  void map_pages(int layer, const TableLayout& layout, PageTable& table) const {
    const Tensor saved = file_.tensor(saved_rows(layer, layout, length_).name);
    const std::int64_t rows = saved.shape[0], step = format_.page_rows;
    for (std::int64_t first = 0; first < rows; first += step) {
      // Mapped pages are copied before anything is written to them.
      auto* const start = const_cast<std::byte*>(saved.bytes.data()) + first * table.row_bytes();
      table.map(start, std::min(step, rows - first), saved.owner);
    }
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
  const auto add = [&](const SavedRows& rows, Pieces pieces) {
    TensorToWrite tensor{rows.name, DType::u8, {0, rows.row_bytes}, {}};
    tensor.pieces = std::move(pieces);
    for (const std::span<const std::byte> piece : tensor.pieces) {
      tensor.shape[0] += static_cast<std::int64_t>(piece.size()) / rows.row_bytes;
    }
    tensors.push_back(std::move(tensor));
  };
  for (const LayerLayout& layer : format.layout.layers) {
    for (const TableLayout& table : layer.tables) {
      const SavedRows rows = saved_rows(layer.layer, table, sequence.length);
      add(rows, paged_pieces(sequence.tables[table.index].rows(), rows.most));
    }
    for (const RingLayout& ring : layer.rings) {
      add(saved_rows(layer.layer, ring, sequence.length), ring_pieces(sequence.rings[ring.index], sequence.length));
    }
  }
  Checksum checksum(metadata);
  for (const TensorToWrite& tensor : tensors) checksum.add(tensor.name, tensor.shape, tensor.pieces);
  metadata["checksum"] = checksum.hex();
  write_safetensors(path, tensors, metadata);
}

Sequence load_sequence(const SequenceFormat& format, Memory& memory, const fs::path& path) {
  return Loader(format, path).load(memory);
}

}  // namespace skim

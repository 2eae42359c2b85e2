// Rows of one kind of one sequence, in equally large pages. Sequences that have a beginning in common share its pages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/memory.hpp"

namespace skim {

/// A page of packed rows: memory of its own, or a part of something mapped. A page is written only while one table
/// alone holds it, and a mapped one never.
struct Page {
  Buffer memory;
  std::shared_ptr<const void> mapping;  ///< Keeps `first` alive if there is no memory.
  std::byte* first = nullptr;
};

class PageTable {
 public:
  PageTable() = default;
  PageTable(Memory& memory, std::int64_t row_bytes, std::int64_t rows_per_page)
      : memory_(&memory), row_bytes_(row_bytes), rows_per_page_(rows_per_page) {}
  // A copy shares all pages. It costs the same however many there are.

  std::int64_t page_bytes() const { return rows_per_page_ * row_bytes_; }
  std::int64_t pages() const { return spine_ != nullptr ? static_cast<std::int64_t>(spine_->starts.size()) : 0; }
  std::int64_t pages_for(std::int64_t rows) const { return (rows + rows_per_page_ - 1) / rows_per_page_; }
  /// Pages that grow(from, to) allocates.
  std::int64_t pages_to_grow(std::int64_t from, std::int64_t to) const;
  /// Makes room for rows [from, to), `from` being as many as there are: adds pages, and takes a copy of the last one if
  /// it is shared. Throws Error{out_of_memory}, std::bad_alloc; then nothing has changed.
  void grow(std::int64_t from, std::int64_t to);
  /// Of the rows that grow made room for keeps those before `rows`: with none of them everything is as it was before,
  /// pages that are shared too. Without a copy of the table in between it cannot throw.
  void settle(std::int64_t rows);
  /// Gives up the pages behind row `rows`. Throws std::bad_alloc; then nothing has changed.
  void shrink(std::int64_t rows);
  /// Adds a page of mapped rows behind the full ones there are.
  void map(std::byte* first, std::shared_ptr<const void> mapping);

  ConstPagedRows rows() const { return {starts(), rows_per_page_, row_bytes_}; }
  PagedRows<std::byte> rows() { return {starts(), rows_per_page_, row_bytes_}; }

 private:
  /// Pages are held in chunks, so that a table that departs from its copy need not count every page again.
  using Chunk = std::vector<std::shared_ptr<Page>>;
  static constexpr std::size_t kChunkPages = 512;

  struct Spine {
    std::vector<std::byte*> starts;  ///< First byte of each page.
    std::vector<std::shared_ptr<Chunk>> chunks;
  };

  std::byte* const* starts() const { return spine_ != nullptr ? spine_->starts.data() : nullptr; }
  /// Whether the page that row `from` goes into exists and may not be written.
  bool must_copy(std::int64_t from) const;
  std::shared_ptr<Page> new_page() const;
  static void append(Spine& spine, std::shared_ptr<Page> page);
  static void drop_from(Spine& spine, std::size_t pages);

  Memory* memory_ = nullptr;
  std::int64_t row_bytes_ = 0;
  std::int64_t rows_per_page_ = 1;
  std::shared_ptr<Spine> spine_;
  std::shared_ptr<Spine> grown_from_;  ///< Between grow and settle.
  std::int64_t grown_from_rows_ = 0;
};

}  // namespace skim

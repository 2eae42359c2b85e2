// Rows of one kind of one sequence, in pages. Sequences that have a beginning in common share its pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/packed_rows.hpp"
#include "kernels/kernels.hpp"
#include "kernels/memory.hpp"

namespace skim {

/// A kind of rows that are kept for good: row j belongs to tokens [j * ratio, (j + 1) * ratio), and is there once the
/// last of them is.
struct TableLayout {
  std::string_view name;  ///< In saved sequences: layer.<i>.<name>.
  RowLayout row;
  int ratio = 1;
  std::size_t index = 0;  ///< Among all tables of the cache.

  std::int64_t rows(std::int64_t tokens) const { return tokens / ratio; }
};

/// A page of packed rows: memory of its own, or a part of something mapped. A page is written only while one table
/// alone holds it, and a mapped one never.
struct Page : std::enable_shared_from_this<Page> {
  Buffer memory;
  std::shared_ptr<const void> mapping;  ///< Keeps `first` alive if there is no memory.
  std::byte* first = nullptr;
  std::int64_t rows = 0;           ///< That there is room for.
  std::shared_ptr<Page> previous;  ///< Whoever holds a page holds those before it.

  Page() = default;
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page();
};

/// All pages have `rows_per_page` rows, but the first one of a short table: that has a power of two of them, as many as
/// are needed.
class PageTable {
 public:
  PageTable(Memory& memory, std::int64_t row_bytes, std::int64_t rows_per_page)
      : memory_(&memory), row_bytes_(row_bytes), rows_per_page_(rows_per_page) {}
  // A copy shares all pages. It costs the same however many there are.

  std::int64_t row_bytes() const { return row_bytes_; }
  std::int64_t page_bytes() const { return rows_per_page_ * row_bytes_; }
  std::int64_t pages() const { return pages_; }
  std::int64_t pages_for(std::int64_t rows) const { return (rows + rows_per_page_ - 1) / rows_per_page_; }
  /// Bytes of the pages of a table that never had more than `rows` rows.
  std::int64_t bytes_for(std::int64_t rows) const;
  /// Bytes that grow(from, to) allocates.
  std::int64_t bytes_to_grow(std::int64_t from, std::int64_t to) const;
  /// Rows that there is room for without growing, `from` being there.
  std::int64_t room(std::int64_t from) const;
  /// Makes room for rows [from, to), `from` being as many as there are: adds pages, and takes a copy of the last one if
  /// it is shared or too small. The time does not depend on `from`, unless pages are shared: then the first to grow
  /// copies the list of them, 16 bytes each. Throws Error{out_of_memory}, std::bad_alloc; then nothing has changed.
  void grow(std::int64_t from, std::int64_t to);
  /// Ends a grow: keeps rows [0, rows) and gives the other new pages back. settle(from) undoes the grow completely.
  void settle(std::int64_t rows);
  /// Gives up the pages behind row `rows`.
  void shrink(std::int64_t rows);
  /// Adds a page of `rows` mapped rows behind the full ones there are.
  void map(std::byte* first, std::int64_t rows, std::shared_ptr<const void> mapping);

  ConstPagedRows rows() const { return {starts(), rows_per_page_, row_bytes_}; }
  PagedRows<std::byte> rows() { return {starts(), rows_per_page_, row_bytes_}; }

 private:
  /// All pages in order, for looking them up. Tables that share a beginning share the list too: the first of them to
  /// add a page takes the place behind the last, others copy the list. Never reallocated, since batches of other tables
  /// may be reading it.
  struct List {
    std::vector<std::byte*> starts;  ///< First byte of each page.
    std::vector<Page*> pages;

    explicit List(std::size_t capacity) { starts.reserve(capacity), pages.reserve(capacity); }
    void set(std::size_t place, Page& page);
    void resize(std::size_t count) { starts.resize(count), pages.resize(count); }
  };
  /// What settle goes back to.
  struct Before {
    std::int64_t rows = 0, pages = 0;
    std::shared_ptr<List> list;
    std::shared_ptr<Page> last;
  };

  std::byte* const* starts() const { return list_ != nullptr ? list_->starts.data() : nullptr; }
  std::int64_t rows_of_page(std::int64_t page, std::int64_t rows) const;
  /// Whether the page that row `from` goes into exists, and is shared, mapped or too small for `to` rows.
  bool must_copy(std::int64_t from, std::int64_t to) const;
  std::shared_ptr<Page> new_page(std::int64_t rows) const;
  void restore(const Before& before);
  /// Takes a smaller first page if `rows` rows need no larger one: some that grow made room for were rejected.
  void fit_first_page(std::int64_t rows);
  /// A list of the first `kept` pages with places for `wanted`, this table's own from `kept` on.
  std::shared_ptr<List> list_for(std::int64_t kept, std::int64_t wanted) const;

  Memory* memory_;
  std::int64_t row_bytes_, rows_per_page_;
  std::int64_t pages_ = 0;
  std::shared_ptr<List> list_;
  std::shared_ptr<Page> last_;    // holds all pages
  std::optional<Before> before_;  // between grow and settle
};

}  // namespace skim

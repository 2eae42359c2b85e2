// Rows of one kind of one sequence, in equally large pages.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/memory.hpp"

namespace skim {

class PageTable {
 public:
  PageTable() = default;
  PageTable(Memory& memory, std::int64_t row_bytes, std::int64_t rows_per_page)
      : memory_(&memory), row_bytes_(row_bytes), rows_per_page_(rows_per_page) {}

  /// Pages needed for this many rows.
  std::int64_t pages_for(std::int64_t rows) const { return (rows + rows_per_page_ - 1) / rows_per_page_; }
  std::int64_t page_bytes() const { return rows_per_page_ * row_bytes_; }
  /// Adds or frees pages at the end so that exactly pages_for(rows) remain. Throws Error{out_of_memory}, then
  /// some of the pages may have been added.
  void fit(std::int64_t rows);
  std::int64_t bytes() const { return static_cast<std::int64_t>(pages_.size()) * page_bytes(); }

  ConstPagedRows rows() const { return {starts_.data(), rows_per_page_, row_bytes_}; }
  PagedRows<std::byte> rows() { return {starts_.data(), rows_per_page_, row_bytes_}; }

 private:
  Memory* memory_ = nullptr;
  std::int64_t row_bytes_ = 0;
  std::int64_t rows_per_page_ = 1;
  std::vector<Buffer> pages_;
  std::vector<std::byte*> starts_;  ///< First byte of each page.
};

}  // namespace skim

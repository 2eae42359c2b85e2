#include "cache/pages.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/out_of_memory.hpp"

namespace skim {

Page::~Page() {
  // One after the other: a chain of pages may be longer than the stack is deep.
  std::shared_ptr<Page> next = std::move(previous);
  while (next != nullptr && next.use_count() == 1) next = std::move(next->previous);
}

void PageTable::List::set(std::size_t place, Page& page) {
  if (place == pages.size()) resize(place + 1);  // within the capacity
  starts[place] = page.first;
  pages[place] = &page;
}

/// Rows that page number `page` has room for in a table of `rows` rows.
std::int64_t PageTable::rows_of_page(std::int64_t page, std::int64_t rows) const {
  if (page > 0) return rows_per_page_;
  return std::min(rows_per_page_, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows))));
}

std::int64_t PageTable::bytes_for(std::int64_t rows) const {
  if (rows == 0) return 0;
  return (rows_of_page(0, rows) + (pages_for(rows) - 1) * rows_per_page_) * row_bytes_;
}

bool PageTable::must_copy(std::int64_t from, std::int64_t to) const {
  if (from % rows_per_page_ == 0) return false;
  return last_.use_count() > 1 || last_->memory.data() == nullptr || last_->rows < rows_of_page(pages_ - 1, to);
}

std::int64_t PageTable::bytes_to_grow(std::int64_t from, std::int64_t to) const {
  if (from == to) return 0;
  std::int64_t rows = must_copy(from, to) ? rows_of_page(pages_ - 1, to) : 0;
  for (std::int64_t page = pages_; page < pages_for(to); ++page) {
    if (page > 0) {
      rows += (pages_for(to) - page) * rows_per_page_;
      break;
    }
    rows += rows_of_page(page, to);
  }
  return rows * row_bytes_;
}

std::int64_t PageTable::room(std::int64_t from) const {
  if (pages_ == 0) return 0;
  if (from % rows_per_page_ == 0) return from;
  if (last_.use_count() > 1 || last_->memory.data() == nullptr) return from;
  return (pages_ - 1) * rows_per_page_ + last_->rows;
}

std::shared_ptr<Page> PageTable::new_page(std::int64_t rows) const {
  auto page = std::make_shared<Page>();
  page->memory = Buffer(*memory_, rows * row_bytes_);
  page->first = page->memory.data();
  page->rows = rows;
  return page;
}

std::shared_ptr<PageTable::List> PageTable::list_for(std::int64_t kept, std::int64_t wanted) const {
  const auto places = static_cast<std::size_t>(wanted);
  if (list_ != nullptr && places <= list_->pages.capacity()) {
    if (list_.use_count() == 1) {
      list_->resize(static_cast<std::size_t>(kept));  // what is behind was given up
      return list_;
    }
    // Others see no place behind their own pages: the first free one is whose it is first.
    if (kept == pages_ && static_cast<std::int64_t>(list_->pages.size()) == pages_) return list_;
  }
  auto list = std::make_shared<List>(std::max<std::size_t>(4, std::bit_ceil(places)));
  if (kept == 0) return list;
  list->starts.assign(list_->starts.begin(), list_->starts.begin() + kept);
  list->pages.assign(list_->pages.begin(), list_->pages.begin() + kept);
  return list;
}

void PageTable::grow(std::int64_t from, std::int64_t to) {
  if (bytes_to_grow(from, to) == 0) return;
  const bool copies = must_copy(from, to);
  const std::int64_t kept = pages_ - (copies ? 1 : 0), wanted = pages_for(to);
  std::vector<std::shared_ptr<Page>> fresh;
  for (std::int64_t page = kept; page < wanted; ++page) fresh.push_back(new_page(rows_of_page(page, to)));
  std::shared_ptr<List> list = list_for(kept, wanted);
  // Nothing throws from here on.
  if (copies) {
    std::memcpy(fresh[0]->first, last_->first, static_cast<std::size_t>(from % rows_per_page_ * row_bytes_));
  }
  before_ = {from, pages_, list_, last_};
  std::shared_ptr<Page> previous = copies ? last_->previous : last_;
  for (std::int64_t page = kept; page < wanted; ++page) {
    std::shared_ptr<Page>& added = fresh[static_cast<std::size_t>(page - kept)];
    added->previous = std::exchange(previous, added);
    list->set(static_cast<std::size_t>(page), *added);
  }
  list_ = std::move(list);
  last_ = std::move(previous);
  pages_ = wanted;
}

void PageTable::settle(std::int64_t rows) {
  if (!before_) return;
  const Before before = *std::exchange(before_, std::nullopt);
  if (rows == before.rows) return restore(before);
  shrink(rows);
  if (pages_ == 1 && last_ != before.last) or_nothing([&] { fit_first_page(rows); });
}

void PageTable::restore(const Before& before) {
  if (list_ == before.list && before.last != nullptr) {
    const auto last = static_cast<std::size_t>(before.pages - 1);
    if (list_->pages[last] != before.last.get()) list_->set(last, *before.last);  // then nobody shares the list
    list_->resize(last + 1);
  }
  pages_ = before.pages;
  list_ = before.list;
  last_ = before.last;
}

/// Of a page that nobody shares.
void PageTable::fit_first_page(std::int64_t rows) {
  const std::int64_t wanted = rows_of_page(0, rows);
  if (last_->rows <= wanted) return;
  std::shared_ptr<Page> page = new_page(wanted);
  std::memcpy(page->first, last_->first, static_cast<std::size_t>(rows * row_bytes_));
  list_->set(0, *page);
  last_ = std::move(page);
}

void PageTable::shrink(std::int64_t rows) {
  const std::int64_t wanted = pages_for(rows);
  if (wanted >= pages_) return;
  last_ = wanted > 0 ? list_->pages[static_cast<std::size_t>(wanted - 1)]->shared_from_this() : nullptr;
  pages_ = wanted;
  if (wanted == 0) list_.reset();
  if (list_ != nullptr && list_.use_count() == 1) list_->resize(static_cast<std::size_t>(wanted));
}

void PageTable::map(std::byte* first, std::int64_t rows, std::shared_ptr<const void> mapping) {
  std::shared_ptr<List> list = list_for(pages_, pages_ + 1);
  auto page = std::make_shared<Page>();
  page->mapping = std::move(mapping);
  page->first = first;
  page->rows = rows;
  page->previous = last_;
  list->set(static_cast<std::size_t>(pages_), *page);
  list_ = std::move(list);
  last_ = std::move(page);
  ++pages_;
}

}  // namespace skim

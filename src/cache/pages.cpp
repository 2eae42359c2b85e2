#include "cache/pages.hpp"

#include <cstring>

namespace skim {

bool PageTable::must_copy(std::int64_t from) const {
  if (from % rows_per_page_ == 0) return false;
  const auto page = static_cast<std::size_t>(from / rows_per_page_);
  const std::shared_ptr<Chunk>& chunk = spine_->chunks[page / kChunkPages];
  const std::shared_ptr<Page>& last = (*chunk)[page % kChunkPages];
  return spine_.use_count() > 1 || chunk.use_count() > 1 || last.use_count() > 1 || last->memory.data() == nullptr;
}

std::int64_t PageTable::pages_to_grow(std::int64_t from, std::int64_t to) const {
  if (from == to) return 0;
  return pages_for(to) - pages_for(from) + (must_copy(from) ? 1 : 0);
}

std::shared_ptr<Page> PageTable::new_page() const {
  auto page = std::make_shared<Page>();
  page->memory = Buffer(*memory_, page_bytes());
  page->first = page->memory.data();
  return page;
}

void PageTable::append(Spine& spine, std::shared_ptr<Page> page) {
  if (spine.starts.size() % kChunkPages == 0) {
    spine.chunks.push_back(std::make_shared<Chunk>());
  } else if (spine.chunks.back().use_count() > 1) {
    spine.chunks.back() = std::make_shared<Chunk>(*spine.chunks.back());
  }
  spine.starts.push_back(page->first);
  spine.chunks.back()->push_back(std::move(page));
}

void PageTable::drop_from(Spine& spine, std::size_t pages) {
  const std::size_t chunks = (pages + kChunkPages - 1) / kChunkPages;
  spine.chunks.resize(chunks);
  if (pages % kChunkPages != 0 && spine.chunks.back()->size() > pages % kChunkPages) {
    if (spine.chunks.back().use_count() > 1) spine.chunks.back() = std::make_shared<Chunk>(*spine.chunks.back());
    spine.chunks.back()->resize(pages % kChunkPages);
  }
  spine.starts.resize(pages);
}

void PageTable::grow(std::int64_t from, std::int64_t to) {
  if (pages_to_grow(from, to) == 0) return;
  const bool copies = must_copy(from);  // first, as it goes by who else holds the page
  std::shared_ptr<Spine> before = spine_ != nullptr ? spine_ : std::make_shared<Spine>();
  auto spine = std::make_shared<Spine>(*before);
  const auto kept = static_cast<std::size_t>(from / rows_per_page_ + (copies || from % rows_per_page_ == 0 ? 0 : 1));
  drop_from(*spine, kept);
  while (static_cast<std::int64_t>(spine->starts.size()) < pages_for(to)) {
    std::shared_ptr<Page> page = new_page();
    if (copies && spine->starts.size() == kept) {
      std::memcpy(page->first, before->starts[kept], static_cast<std::size_t>(from % rows_per_page_ * row_bytes_));
    }
    append(*spine, std::move(page));
  }
  grown_from_ = std::move(before);
  grown_from_rows_ = from;
  spine_ = std::move(spine);
}

void PageTable::settle(std::int64_t rows) {
  if (grown_from_ == nullptr) return;
  if (rows == grown_from_rows_) spine_ = grown_from_;
  grown_from_.reset();
  shrink(rows);
}

void PageTable::shrink(std::int64_t rows) {
  const auto wanted = static_cast<std::size_t>(pages_for(rows));
  if (static_cast<std::int64_t>(wanted) >= pages()) return;
  if (spine_.use_count() > 1) spine_ = std::make_shared<Spine>(*spine_);
  drop_from(*spine_, wanted);
}

void PageTable::map(std::byte* first, std::shared_ptr<const void> mapping) {
  auto spine = spine_ != nullptr ? spine_ : std::make_shared<Spine>();
  auto page = std::make_shared<Page>();
  page->mapping = std::move(mapping);
  page->first = first;
  append(*spine, std::move(page));
  spine_ = std::move(spine);
}

}  // namespace skim

#include "cache/ring.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/out_of_memory.hpp"

namespace skim {
namespace {

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

std::int64_t Ring::slots_for(std::int64_t tokens) const {
  if (tokens == 0) return 0;
  return std::min(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tokens))), most_slots_);
}

/// Whether rows of `tokens` tokens need memory that this ring does not have for itself.
bool Ring::must_move(std::int64_t tokens) const { return slots_for(tokens) > slots_ || rows_.use_count() > 1; }

std::int64_t Ring::room() const {
  if (rows_.use_count() > 1) return 0;
  return slots_ == most_slots_ ? std::numeric_limits<std::int64_t>::max() : slots_;
}

std::int64_t Ring::bytes_to_grow(std::int64_t tokens) const {
  return must_move(tokens) ? std::max(slots_, slots_for(tokens)) * row_bytes_ : 0;
}

std::shared_ptr<Buffer> Ring::new_rows(std::int64_t slots) const {
  return std::make_shared<Buffer>(*memory_, slots * row_bytes_);
}

void Ring::grow(std::int64_t tokens) {
  if (bytes_to_grow(tokens) == 0) return;
  const std::int64_t slots = std::max(slots_, slots_for(tokens));
  grown_ = new_rows(slots);
  grown_slots_ = slots;
}

void Ring::commit(std::int64_t start, std::int64_t end, const StagedRows& staged) {
  if (end == start) return;
  if (must_move(end)) {
    if (std::max(slots_, slots_for(end)) < grown_slots_) or_nothing([&] { grow(end); });  // tokens were rejected
    for (std::int64_t position = first_; position < start; ++position) {
      copy_bytes(grown_->data() + position % grown_slots_ * row_bytes_, row(position), row_bytes_);
    }
    rows_ = std::move(grown_);
    slots_ = grown_slots_;
  }
  first_ = std::max(first_, end - slots_);
  for (std::int64_t position = std::max(start, first_); position < end; ++position) {
    copy_bytes(row(position), staged.row(position), row_bytes_);
  }
}

void Ring::truncate(std::int64_t length) {
  first_ = std::min(first_, length);
  if (length > 0) return;
  rows_.reset();
  slots_ = 0;
}

void Ring::restore(std::int64_t length, std::span<const std::byte> rows) {
  slots_ = slots_for(length);
  rows_ = slots_ > 0 ? new_rows(slots_) : nullptr;
  const std::int64_t saved = static_cast<std::int64_t>(rows.size()) / row_bytes_,
                     count = std::min({saved, slots_, length});
  first_ = length - count;
  for (std::int64_t position = first_; position < length; ++position) {
    copy_bytes(row(position), rows.data() + (saved - (length - position)) * row_bytes_, row_bytes_);
  }
}

}  // namespace skim

#include "cache/staging.hpp"

#include <algorithm>
#include <cstring>

namespace skim {
namespace {

constexpr std::int64_t kAlignment = 64;

template <class Each>
void for_rings(const CacheLayout& layout, const Each& each) {
  for (const LayerLayout& layer : layout.layers) {
    for (const RingLayout& ring : layer.rings) each(ring);
  }
}

/// Rows that the longest of a batch's sequences gets room for. When they are full, those that are still needed move to
/// the front; so there are twice as many, lest they move with every tile.
std::int64_t most_rows(const CacheLayout& layout, const RingLimits& limits) {
  std::int64_t most = 0;
  for_rings(layout, [&](const RingLayout& ring) {
    const std::int64_t needed = ring.most_staged(limits);
    most = std::max(most, needed + std::max(needed, kMostTileRows));
  });
  return most;
}

/// Bytes of `rows` rows of one ring.
std::int64_t region_bytes(const RingLayout& ring, std::int64_t rows) {
  return (rows * ring.row_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Staging::Staging(const CacheLayout& layout, const RingLimits& limits, const std::vector<NewTokens>& sequences)
    : limits_(limits) {
  const std::int64_t most = most_rows(layout, limits);
  std::int64_t rows = 0, bytes = 0;
  for (const NewTokens& tokens : sequences) {
    places_.push_back({tokens.start, std::min(tokens.count, most), rows});
    rows += places_.back().rows;
  }
  for_rings(layout, [&](const RingLayout& ring) {
    offsets_.push_back(bytes);
    bytes += region_bytes(ring, rows);
    for (const Place& place : places_) first_.push_back(place.start);
  });
  if (bytes > 0) memory_ = Buffer(*layout.memory, bytes);
}

std::int64_t Staging::bytes_for(const CacheLayout& layout, const RingLimits& limits,
                                const std::vector<NewTokens>& sequences) {
  const std::int64_t most = most_rows(layout, limits);
  std::int64_t rows = 0, bytes = 0;
  for (const NewTokens& tokens : sequences) rows += std::min(tokens.count, most);
  for_rings(layout, [&](const RingLayout& ring) { bytes += region_bytes(ring, rows); });
  return bytes;
}

std::int64_t& Staging::first(const RingLayout& ring, std::size_t sequence) {
  return first_[ring.index * places_.size() + sequence];
}

void Staging::restart(const LayerLayout& layer) {
  for (const RingLayout& ring : layer.rings) {
    for (std::size_t i = 0; i < places_.size(); ++i) first(ring, i) = places_[i].start;
  }
}

StagedRows Staging::rows(const RingLayout& ring, std::size_t sequence) const {
  const std::int64_t offset = offsets_[ring.index] + places_[sequence].before * ring.row_bytes;
  return {memory_.data() + offset, first_[ring.index * places_.size() + sequence], ring.row_bytes};
}

std::byte* Staging::append(const RingLayout& ring, std::size_t sequence, std::int64_t position, std::int64_t count) {
  StagedRows staged = rows(ring, sequence);
  if (position + count - staged.first > places_[sequence].rows) {
    const std::int64_t kept = std::max(staged.first, position - ring.most_staged(limits_));
    std::memmove(staged.data, staged.row(kept), static_cast<std::size_t>((position - kept) * ring.row_bytes));
    staged.first = first(ring, sequence) = kept;
  }
  return staged.row(position);
}

}  // namespace skim

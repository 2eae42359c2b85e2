#include "cache/sequence.hpp"

#include <algorithm>
#include <limits>

namespace skim {
namespace {

template <class Each>
void for_tables(const CacheLayout& layout, const Each& each) {
  for (const LayerLayout& layer : layout.layers) {
    for (const TableLayout& table : layer.tables) each(table);
  }
}

template <class Each>
void for_rings(const CacheLayout& layout, const Each& each) {
  for (const LayerLayout& layer : layout.layers) {
    for (const RingLayout& ring : layer.rings) each(ring);
  }
}

}  // namespace

Sequence::Sequence(const CacheLayout& layout, Memory& memory, std::int64_t page_rows, const RingLimits& limits) {
  tables.reserve(layout.tables);
  rings.reserve(layout.rings);
  for_tables(layout, [&](const TableLayout& table) { tables.emplace_back(memory, table.row.bytes(), page_rows); });
  for_rings(layout,
            [&](const RingLayout& ring) { rings.emplace_back(memory, ring.row_bytes, ring.most_slots(limits)); });
}

std::int64_t Sequence::bytes_to_grow(const CacheLayout& layout, std::int64_t tokens) const {
  if (has_room(tokens)) return 0;
  std::int64_t total = 0;
  for_tables(layout, [&](const TableLayout& table) {
    total += tables[table.index].bytes_to_grow(table.rows(length), table.rows(tokens));
  });
  for (const Ring& ring : rings) total += ring.bytes_to_grow(tokens);
  return total;
}

void Sequence::grow(const CacheLayout& layout, std::int64_t tokens) {
  if (has_room(tokens)) return;
  grown_ = true;
  for_tables(layout,
             [&](const TableLayout& table) { tables[table.index].grow(table.rows(length), table.rows(tokens)); });
  for (Ring& ring : rings) ring.grow(tokens);
}

void Sequence::settle(const CacheLayout& layout) {
  if (!grown_) return;
  grown_ = false;
  for_tables(layout, [&](const TableLayout& table) { tables[table.index].settle(table.rows(length)); });
  for (Ring& ring : rings) ring.settle();
  room_ = find_room(layout);
}

std::int64_t Sequence::find_room(const CacheLayout& layout) const {
  std::int64_t room = std::numeric_limits<std::int64_t>::max();
  for_tables(layout, [&](const TableLayout& table) {
    const std::int64_t rows = tables[table.index].room(table.rows(length));
    room = std::min(room, (rows + 1) * table.ratio - 1);
  });
  for (const Ring& ring : rings) room = std::min(room, ring.room());
  return room;
}

bool Sequence::can_restore(const CacheLayout& layout, std::int64_t earlier) const {
  if (earlier < 0 || earlier > length) return false;
  if (earlier == length || earlier == 0) return true;
  bool held = true;
  for_rings(layout, [&](const RingLayout& ring) {
    held = held && (ring.needs(earlier) == 0 || rings[ring.index].holds(earlier - ring.needs(earlier)));
  });
  return held;
}

/// No length from 1 to below this one can be restored.
std::int64_t Sequence::lowest_restorable(const CacheLayout& layout) const {
  std::int64_t lowest = 1;
  for_rings(layout, [&](const RingLayout& ring) {
    const std::int64_t first = rings[ring.index].first();
    if (first > 0 && ring.recent > 0) lowest = std::max(lowest, first + ring.recent);
  });
  return lowest;
}

std::vector<LengthRange> Sequence::restorable(const CacheLayout& layout) const {
  if (!layout.has_rings()) return {{0, length}};
  std::vector<LengthRange> ranges = {{0, 0}};
  for (std::int64_t tokens = lowest_restorable(layout); tokens <= length; ++tokens) {
    if (!can_restore(layout, tokens)) continue;
    if (ranges.back().last == tokens - 1) {
      ranges.back().last = tokens;
    } else {
      ranges.push_back({tokens, tokens});
    }
  }
  return ranges;
}

Sequence Sequence::fork(const CacheLayout& layout, std::int64_t tokens) {
  Sequence child = *this;
  child.truncate(layout, tokens);
  room_ = child.room_ = 0;
  return child;
}

void Sequence::truncate(const CacheLayout& layout, std::int64_t tokens) {
  for_tables(layout, [&](const TableLayout& table) { tables[table.index].shrink(table.rows(tokens)); });
  for (Ring& ring : rings) ring.truncate(tokens);
  length = tokens;
  room_ = 0;
}

}  // namespace skim

#include "attention/cache_rows.hpp"

namespace skim {

std::vector<ClosedGroups> closed_groups(const LayerRun& run, const Tile& tile) {
  std::vector<ClosedGroups> closed;
  std::int64_t row = 0;
  for (const TilePiece& piece : tile.pieces) {
    const std::int64_t first = piece.position / run.role.ratio;
    const std::int64_t last = (piece.position + piece.rows) / run.role.ratio;
    closed.push_back({piece.sequence, row, first, last - first});
    row += last - first;
  }
  return closed;
}

void append_rows(const LayerRun& run, PageTable LayerCache::*table, RowLayout layout,
                 const std::vector<ClosedGroups>& closed, View<const bf16, 2> rows) {
  for (const ClosedGroups& groups : closed) {
    run.kernels.pack_rows(run.context(), layout, rows.rows(groups.first_row, groups.count),
                          (run.source_cache(groups.sequence).*table).rows(), groups.first_group);
  }
}

std::vector<const std::byte*> packed_rows(const LayerRun& run, PageTable LayerCache::*table,
                                          const std::vector<ClosedGroups>& closed) {
  std::vector<const std::byte*> rows;
  for (const ClosedGroups& groups : closed) {
    const LayerCache& cache = run.source_cache(groups.sequence);
    const ConstPagedRows pages = (cache.*table).rows();
    if (pages.pages == nullptr) continue;  // no group has closed yet
    for (std::int64_t i = 0; i < groups.count; ++i) rows.push_back(pages.row(groups.first_group + i));
  }
  return rows;
}

View<bf16, 2> stored_rows(const LayerRun& run, PageTable LayerCache::*table, RowLayout layout,
                          const std::vector<ClosedGroups>& closed) {
  const std::vector<const std::byte*> packed = packed_rows(run, table, closed);
  const auto rows = run.arena().tensor<bf16, 2>({static_cast<std::int64_t>(packed.size()), layout.width});
  for (std::size_t i = 0; i < packed.size(); ++i) unpack_row(layout, packed[i], rows.row(static_cast<std::int64_t>(i)));
  return rows;
}

void show_groups(const LayerRun& run, std::string_view name, const std::vector<ClosedGroups>& closed,
                 View<const bf16, 2> rows) {
  if (!run.traces(name)) return;
  for (const ClosedGroups& groups : closed) {
    if (groups.count == 0) continue;
    run.trace->rows(
        {run.layer, name, groups.sequence, groups.first_group, rows.rows(groups.first_row, groups.count), {}});
  }
}

}  // namespace skim

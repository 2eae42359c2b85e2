#include "attention/cache_rows.hpp"

#include <utility>

namespace skim {

std::vector<ClosedGroups> closed_groups(const LayerCall& call, const Tile& tile) {
  std::vector<ClosedGroups> closed;
  std::int64_t row = 0;
  for (const TilePiece& piece : tile.pieces) {
    const std::int64_t first = piece.position / call.role.ratio;
    const std::int64_t last = (piece.position + piece.rows) / call.role.ratio;
    closed.push_back({&piece, row, first, last - first});
    row += last - first;
  }
  return closed;
}

void append_rows(const LayerCall& call, std::string_view table, const std::vector<ClosedGroups>& closed,
                 View<const bf16, 2> rows) {
  const RowLayout layout = call.layout().table(table).row;
  for (const ClosedGroups& groups : closed) {
    call.kernels.pack_rows(call.context(), layout, rows.rows(groups.first_row, groups.count),
                           call.table(*groups.piece, table).rows(), groups.first_group);
  }
}

std::vector<const std::byte*> packed_rows(const LayerCall& call, std::string_view table,
                                          const std::vector<ClosedGroups>& closed) {
  std::vector<const std::byte*> rows;
  for (const ClosedGroups& groups : closed) {
    const ConstPagedRows pages = std::as_const(call.table(*groups.piece, table)).rows();
    if (pages.pages == nullptr) continue;  // no group has closed yet
    for (std::int64_t i = 0; i < groups.count; ++i) rows.push_back(pages.row(groups.first_group + i));
  }
  return rows;
}

View<bf16, 2> stored_rows(const LayerCall& call, std::string_view table, const std::vector<ClosedGroups>& closed) {
  const RowLayout layout = call.layout().table(table).row;
  const std::vector<const std::byte*> packed = packed_rows(call, table, closed);
  const auto rows = call.arena().tensor<bf16, 2>({std::ssize(packed), layout.width});
  for (std::size_t i = 0; i < packed.size(); ++i) unpack_row(layout, packed[i], rows.row(static_cast<std::int64_t>(i)));
  return rows;
}

void show_groups(const LayerCall& call, std::string_view name, const std::vector<ClosedGroups>& closed,
                 View<const bf16, 2> rows) {
  if (!call.traces(name)) return;
  for (const ClosedGroups& groups : closed) {
    if (groups.count == 0) continue;
    call.show_rows(name, *groups.piece, groups.first_group, rows.rows(groups.first_row, groups.count));
  }
}

void show_stored(const LayerCall& call, std::string_view name, std::string_view table,
                 const std::vector<ClosedGroups>& closed) {
  if (!call.traces(name)) return;
  const Arena::Scope scope(call.arena());
  show_groups(call, name, closed, stored_rows(call, table, closed));
}

}  // namespace skim

#include "attention/attend_rows.hpp"

#include <algorithm>

namespace skim {
namespace {

/// Window rows that a query at this position sees.
void add_window(AttendQuery& query, const WindowRows& window, std::int64_t width, std::int64_t position) {
  query.window = window;
  query.window_count = std::min(position + 1, width);
  query.window_first = position + 1 - query.window_count;
}

void add_rows(const LayerCall& call, AttendQuery& query, const ConstPagedRows& rows, std::int64_t token,
              std::int64_t position) {
  query.selected_rows = rows;
  if (call.role.is_dense()) {
    query.dense_rows = (position + 1) / call.role.ratio;
  } else {
    query.selected = call.batch.selections.at(call.role.index_source).list(token);
  }
}

}  // namespace

View<const float, 2> attend_rows(const LayerCall& call, const Tile& tile, AttendShape shape, View<const bf16, 2> q,
                                 View<bf16, 2> out) {
  const RingLayout* const window = call.layout().find_ring(kWindow);
  if (window != nullptr) shape.window_layout = window->row;
  if (call.role.ratio > 0) shape.selected_layout = call.row_layout().table(kRows).row;
  View<float, 2> log_sum;
  if (call.traces("attention")) log_sum = call.arena().tensor<float, 2>({tile.rows, shape.heads});
  std::vector<AttendQuery> queries;
  queries.reserve(static_cast<std::size_t>(tile.rows));
  for (const TilePiece& piece : tile.pieces) {
    for (std::int64_t i = 0; i < piece.rows; ++i) {
      const std::int64_t row = piece.first_row + i, position = piece.position + i;
      AttendQuery& query = queries.emplace_back();
      query.query = q.row(row);
      query.out = out.row(row);
      if (log_sum.data != nullptr) query.log_sum = log_sum.row(row);
      if (window != nullptr) add_window(query, call.window(piece, *window), window->recent + 1, position);
      if (call.role.ratio > 0) add_rows(call, query, call.rows(piece), tile.first_token + row, position);
    }
  }
  call.kernels.attend(call.context(), shape, queries);
  return log_sum;
}

void show_attention(const LayerCall& call, const Tile& tile, View<bf16, 2> attention, View<const float, 2> log_sum,
                    const float* sink) {
  if (log_sum.data == nullptr) return;
  const std::int64_t heads = log_sum.shape[1], width = attention.shape[1] / heads;
  for (const TilePiece& piece : tile.pieces) {
    const View<bf16, 3> rows(attention.row(piece.first_row), {piece.rows, heads, width},
                             {attention.strides[0], width, 1});
    call.trace->attention({call.layer,
                           piece.index,
                           piece.position,
                           rows,
                           log_sum.rows(piece.first_row, piece.rows),
                           {sink, sink != nullptr ? static_cast<std::size_t>(heads) : 0}});
  }
}

}  // namespace skim

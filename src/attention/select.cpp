#include "attention/select.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "formats/bf16.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

/// Query row of the tile with what it may look at.
struct IndexRow {
  const TilePiece* piece = nullptr;
  std::int64_t row = 0;  ///< In the tile.
  std::int64_t position = 0;
  std::int64_t visible = 0;  ///< Compressed positions.
};

std::vector<IndexRow> index_rows(const LayerCall& call, const Tile& tile) {
  std::vector<IndexRow> rows;
  for (const TilePiece& piece : tile.pieces) {
    for (std::int64_t i = 0; i < piece.rows; ++i) {
      const std::int64_t position = piece.position + i;
      rows.push_back({&piece, piece.first_row + i, position, (position + 1) / call.role.ratio});
    }
  }
  return rows;
}

/// Some queries of a tile whose scores are in memory at the same time.
class ScoreTile {
 public:
  ScoreTile(const LayerCall& call, const Tile& tile, const IndexInput& input, const SelectionLimits& limits,
            std::span<const IndexRow> rows)
      : call_(call), tile_(tile), input_(input), limits_(limits), rows_(rows) {}

  void process() {
    const Arena::Scope scope(call_.arena());
    if (call_.role.candidate_source >= 0) {
      show_all_scores();
      score(candidate_ranges());
    } else {
      score(full_ranges());
      show_scores();
    }
    if (call_.role.is_candidate_source) publish_candidates();
    publish_selection();
  }

 private:
  std::int64_t token(const IndexRow& row) const { return tile_.first_token + row.row; }

  std::vector<IndexRange> full_ranges() const {
    std::vector<IndexRange> ranges;
    for (const IndexRow& row : rows_) ranges.push_back({.visible = row.visible, .blocks = {}});
    return ranges;
  }

  std::vector<IndexRange> candidate_ranges() const {
    const Publication& candidates = call_.batch.candidates.at(call_.role.candidate_source);
    std::vector<IndexRange> ranges;
    for (const IndexRow& row : rows_) {
      ranges.push_back({row.visible, true, candidates.list(token(row)), limits_.candidate_block_size});
    }
    return ranges;
  }

  void score(std::vector<IndexRange> ranges) {
    ranges_ = std::move(ranges);
    scores_.clear();
    std::vector<IndexQuery> queries;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const IndexRow& row = rows_[i];
      float* scores = call_.arena().take<float>(ranges_[i].slots());
      scores_.emplace_back(scores, static_cast<std::size_t>(ranges_[i].slots()));
      queries.push_back({input_.queries + row.row * input_.shape.heads * input_.shape.layout.bytes(),
                         input_.weights.row(row.row), call_.keys(*row.piece), ranges_[i], scores});
    }
    call_.kernels.index_score(call_.context(), input_.shape, queries);
  }

  void show_scores() {
    if (!call_.watches_scores) return;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      call_.trace->scores({call_.layer, rows_[i].piece->index, rows_[i].position, scores_[i]});
    }
  }

  /// With candidates only their blocks are scored; a watcher sees the scores of all visible positions.
  void show_all_scores() {
    if (!call_.watches_scores) return;
    const Arena::Scope scope(call_.arena());
    score(full_ranges());
    show_scores();
  }

  void publish_candidates() {
    Publication& published = call_.batch.candidates.at(call_.layer);
    std::vector<BlockQuery> queries;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      queries.push_back({scores_[i], limits_.candidate_block_size, limits_.candidate_topk_blocks,
                         published.entries(token(rows_[i])), published.count(token(rows_[i]))});
    }
    call_.kernels.select_blocks(call_.context(), queries);
    for (const IndexRow& row : rows_) {
      const std::int64_t size = limits_.candidate_block_size;
      offer(published, row, (row.visible + size - 1) / size, &Trace::candidates);
    }
  }

  void publish_selection() {
    Publication& published = call_.batch.selections.at(call_.layer);
    std::vector<TopkQuery> queries;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      queries.push_back(
          {scores_[i], ranges_[i], limits_.topk, published.entries(token(rows_[i])), published.count(token(rows_[i]))});
    }
    call_.kernels.select_topk(call_.context(), queries);
    if (call_.layout().find_ring(kWindow) == nullptr) {
      for (const IndexRow& row : rows_) keep_newest(published, token(row), row);
    }
    for (const IndexRow& row : rows_) offer(published, row, row.visible, &Trace::selection);
  }

  /// A query with NaN in it scores everything NaN, so nothing was chosen. Without a window it would attend to no row
  /// and give zeros, where NaN belongs: it attends to its newest position.
  static void keep_newest(Publication& published, std::int64_t token, const IndexRow& row) {
    if (*published.count(token) > 0 || row.visible == 0) return;
    *published.entries(token) = static_cast<std::int32_t>(row.visible - 1);
    *published.count(token) = 1;
  }

  /// Lets the trace see a list, and takes over its changes.
  void offer(Publication& published, const IndexRow& row, std::int64_t limit,
             void (Trace::*function)(const TraceSelection&)) {
    if (call_.trace == nullptr) return;
    const std::span<const std::int32_t> list = published.list(token(row));
    std::vector<std::int32_t> chosen(list.begin(), list.end());
    (call_.trace->*function)({call_.layer, row.piece->index, row.position, limit, chosen});
    check_replacement(published, row, limit, chosen);
    std::copy(chosen.begin(), chosen.end(), published.entries(token(row)));
    *published.count(token(row)) = static_cast<std::int32_t>(chosen.size());
  }

  void check_replacement(const Publication& published, const IndexRow& row, std::int64_t limit,
                         const std::vector<std::int32_t>& chosen) const {
    const bool ascending = std::adjacent_find(chosen.begin(), chosen.end(), std::greater_equal<>()) == chosen.end();
    const bool inside = chosen.empty() || (chosen.front() >= 0 && chosen.back() < limit);
    if (static_cast<std::int64_t>(chosen.size()) <= published.longest() && ascending && inside) return;
    throw Error(ErrorCode::invalid_argument, "trace: replaced selection of layer " + std::to_string(call_.layer) +
                                                 " at position " + std::to_string(row.position) +
                                                 ", expected at most " + std::to_string(published.longest()) +
                                                 " ascending entries below " + std::to_string(limit));
  }

  const LayerCall& call_;
  const Tile& tile_;
  const IndexInput& input_;
  const SelectionLimits& limits_;
  std::span<const IndexRow> rows_;
  std::vector<IndexRange> ranges_;
  std::vector<std::span<float>> scores_;
};

/// Scores of one query, at most.
std::int64_t score_bytes(const LayerCall& call, const SelectionLimits& limits, const IndexRow& row) {
  std::int64_t slots = row.visible;
  if (call.role.candidate_source >= 0 && !call.watches_scores) {
    slots = std::min(slots, std::int64_t{limits.candidate_topk_blocks} * limits.candidate_block_size);
  }
  return slots * static_cast<std::int64_t>(sizeof(float)) + 64;
}

/// Positions that the last query of the longest sequence sees.
std::int64_t most_visible(const LayerCall& call) {
  std::int64_t most = 0;
  for (const BatchSequence& entry : call.batch.sequences) {
    most = std::max(most, (entry.start + entry.tokens) / call.role.ratio);
  }
  return most;
}

}  // namespace

IndexInput pack_queries(const LayerCall& call, const IndexShape& shape, View<const bf16, 2> queries) {
  const std::int64_t row_bytes = shape.layout.bytes(), count = queries.shape[0] * shape.heads;
  std::byte* packed = call.arena().take<std::byte>(count * row_bytes);
  call.kernels.pack_rows(call.context(), shape.layout, View<const bf16, 2>(queries.data, {count, shape.layout.width}),
                         {&packed, count, row_bytes}, 0);
  return {shape, packed, {}};
}

void show_index_queries(const LayerCall& call, const Tile& tile, const IndexInput& input) {
  if (!call.traces("index_q")) return;
  const Arena::Scope scope(call.arena());
  const std::int64_t width = input.shape.layout.width;
  const auto rows = call.arena().tensor<bf16, 2>({tile.rows, input.shape.heads * width});
  for (std::int64_t i = 0; i < tile.rows * input.shape.heads; ++i) {
    unpack_row(input.shape.layout, input.queries + i * input.shape.layout.bytes(), rows.data + i * width);
  }
  call.show("index_q", tile, rows);
}

View<float, 2> scaled_head_weights(const LayerCall& call, const Tile& tile, View<const bf16, 2> x,
                                   const Weight& projection, int width) {
  const std::int64_t heads = projection.format.out;
  const auto scale = static_cast<float>(std::pow(width, -0.5) * std::pow(heads, -0.5));
  const View<bf16, 2> rounded = call.project(x, projection);
  const auto weights = call.arena().tensor<float, 2>({tile.rows, heads});
  for (std::int64_t i = 0; i < tile.rows * heads; ++i) {
    rounded.data[i] = to_bf16(to_float(rounded.data[i]) * scale);
    weights.data[i] = to_float(rounded.data[i]);
  }
  call.show("index_weights", tile, rounded);
  return weights;
}

void prepare_selection(const LayerCall& call, const SelectionLimits& limits) {
  const std::int64_t visible = most_visible(call);
  call.batch.selections[call.layer] = Publication(call.batch.tokens, std::min<std::int64_t>(limits.topk, visible));
  if (!call.role.is_candidate_source) return;
  const std::int64_t blocks = visible / limits.candidate_block_size + 1;
  call.batch.candidates[call.layer] =
      Publication(call.batch.tokens, std::min<std::int64_t>(limits.candidate_topk_blocks, blocks));
}

void select(const LayerCall& call, const Tile& tile, const IndexInput& input, const SelectionLimits& limits) {
  const std::vector<IndexRow> rows = index_rows(call, tile);
  const std::int64_t budget = call.batch.cache->options.workspace_bytes / 2;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first + 1;
    std::int64_t bytes = score_bytes(call, limits, rows[first]);
    while (last < rows.size() && bytes + score_bytes(call, limits, rows[last]) <= budget) {
      bytes += score_bytes(call, limits, rows[last++]);
    }
    ScoreTile(call, tile, input, limits, std::span(rows).subspan(first, last - first)).process();
    first = last;
  }
}

}  // namespace skim

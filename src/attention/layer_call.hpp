// One call of Model::forward: what all steps of a layer share, whatever the model.
#pragma once

#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention/rope.hpp"
#include "attention/tile.hpp"
#include "cache/batch_impl.hpp"
#include "kernels/kernels.hpp"
#include "skim/config.hpp"
#include "skim/trace.hpp"

namespace skim {

/// A projection with a norm behind it: rmsnorm(x W^T).
struct NormedProjection {
  const Weight& weight;
  const std::vector<float>& norm;
};

struct LayerCall {
  int layer;
  const LayerRole& role;
  const RopeTable& rope;
  const Kernels& kernels;
  Batch::Impl& batch;
  std::size_t slot;     ///< Of the layer in the cache layout.
  bool yarn;            ///< The cache is for long contexts: CacheLayout::yarn.
  Trace* trace;         ///< May be null.
  bool watches_scores;  ///< The trace wants index_score; asked once, since the workspace depends on it.
  float norm_eps;

  Context& context() const { return *batch.context; }
  Arena& arena() const { return batch.context->arena(); }
  const LayerLayout& layout() const { return batch.layout().layers[slot]; }
  /// Layout of the layer whose rows this one reads.
  const LayerLayout& row_layout() const { return batch.layout().layers[batch.layout().slot(role.kv_source)]; }
  /// A table of this layer.
  PageTable& table(const TilePiece& piece, std::string_view name) const {
    return piece.sequence->sequence->tables[layout().table(name).index];
  }
  /// Rows that this layer reads, and index keys that it scores.
  ConstPagedRows rows(const TilePiece& piece) const { return rows_of(piece, role.kv_source, kRows); }
  ConstPagedRows keys(const TilePiece& piece) const { return rows_of(piece, role.key_source, kKeys); }
  /// Room for the new rows of a ring of this layer, one per row of the piece.
  std::byte* stage(const TilePiece& piece, const RingLayout& ring) const {
    return batch.staging.append(ring, static_cast<std::size_t>(piece.index), piece.position, piece.rows);
  }
  /// A row of a ring of this layer: one of the last committed, or one staged.
  const std::byte* ring_row(const TilePiece& piece, const RingLayout& ring, std::int64_t position) const {
    return batch.ring_row(ring, static_cast<std::size_t>(piece.index), position);
  }
  WindowRows window(const TilePiece& piece, const RingLayout& ring) const {
    return batch.window(ring, static_cast<std::size_t>(piece.index));
  }

  bool traces(std::string_view name) const { return trace != nullptr && trace->wants(name); }
  /// Shows rows [tile.rows, width] of bf16 or float of the tile's tokens, sequence by sequence.
  template <class T>
  void show(std::string_view name, const Tile& tile, View<T, 2> rows) const {
    if (!traces(name)) return;
    for (const TilePiece& piece : tile.pieces) {
      show_rows(name, piece, piece.position, rows.rows(piece.first_row, piece.rows));
    }
  }
  /// Shows consecutive rows [rows, width] of one sequence; `first` is the position or group of the first.
  void show_rows(std::string_view name, const TilePiece& piece, std::int64_t first, View<const bf16, 2> rows) const {
    trace->rows({layer, name, piece.index, first, rows, {}});
  }
  void show_rows(std::string_view name, const TilePiece& piece, std::int64_t first, View<const float, 2> rows) const {
    trace->rows({layer, name, piece.index, first, {}, rows});
  }

  /// Cosines and sines [positions, pairs, 2] of this layer, in the arena.
  View<const float, 3> angles(std::span<const std::int64_t> positions) const;
  /// Rotates x [rows, heads * width] seen as heads of `width`.
  void rotate(View<bf16, 2> x, std::int64_t width, View<const float, 3> angles,
              RotationStyle style = RotationStyle::tail_adjacent) const;
  /// Undoes `rotate` of the tails.
  void rotate_back(View<bf16, 2> x, std::int64_t width, View<const float, 3> angles) const;
  /// [rows, width of the projection], in the arena.
  View<bf16, 2> project(View<const bf16, 2> x, const Weight& weight) const;
  View<bf16, 2> project(View<const bf16, 2> x, const NormedProjection& projection) const;

 private:
  ConstPagedRows rows_of(const TilePiece& piece, int source, std::string_view name) const {
    const TableLayout& table = batch.layout().layers[batch.layout().slot(source)].table(name);
    return std::as_const(piece.sequence->sequence->tables[table.index]).rows();
  }
};

/// Queries of a tile: low-rank [rows, q_lora_rank], and of all heads [rows, heads * width], tails rotated.
struct Queries {
  View<bf16, 2> low_rank, heads;
};
Queries project_queries(const LayerCall& call, const Tile& tile, View<const bf16, 2> x, const NormedProjection& down,
                        const Weight& up, std::int64_t head_width, View<const float, 3> angles);

/// What a layer does to some tokens. x, out: [tile.rows, dim]
using RunTile = std::function<void(const Tile& tile, View<const bf16, 2> x, View<bf16, 2> out)>;
/// Takes all tokens of the batch through `run_tile`, so many at a time that their activations (`row_bytes` each) fit
/// half the workspace; scores may use the other half. x, out: [tokens, dim]. Throws Error{cancelled}.
void run_tiles(const LayerCall& call, std::int64_t row_bytes, View<const bf16, 2> x, View<bf16, 2> out,
               const RunTile& run_tile);

}  // namespace skim

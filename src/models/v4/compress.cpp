// Latents of closed groups, their compressed rows and index keys: docs/v4.md, step 3.
#include <algorithm>
#include <cstring>
#include <limits>

#include "attention/cache_rows.hpp"
#include "models/v4/layer.hpp"
#include "models/v4/v4.hpp"

namespace skim::v4 {
namespace {

/// Where the groups of a layer come from: weights, the ring in which tokens wait, and the width of a latent.
struct Compressor {
  const CompressorWeights& weights;
  std::string_view ring;
  std::int64_t width = 0;
  int ratio = 0;

  /// Channels of a token's row: with overlap those for the next group, then those for its own.
  std::int64_t channels() const { return overlaps(ratio) ? 2 * width : width; }
  /// Rows that one latent is pooled from.
  std::int64_t rows() const { return overlaps(ratio) ? 2 * ratio : ratio; }
};

/// x * wkv and x * wgate + ape of the tile's tokens: [rows, channels].
struct Tokens {
  View<float, 2> kv, score;
};

Tokens project(const Call& call, const Tile& tile, const Compressor& from, View<const bf16, 2> x) {
  const std::int64_t channels = from.channels();
  const Tokens tokens{call.arena().tensor<float, 2>({tile.rows, channels}),
                      call.arena().tensor<float, 2>({tile.rows, channels})};
  call.kernels.linear_f32(call.context(), x, from.weights.wkv, tokens.kv);
  call.kernels.linear_f32(call.context(), x, from.weights.wgate, tokens.score);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const float* ape = from.weights.ape.data() + tile.positions[static_cast<std::size_t>(row)] % from.ratio * channels;
    float* score = tokens.score.row(row);
    for (std::int64_t c = 0; c < channels; ++c) score[c] += ape[c];
  }
  return tokens;
}

/// Rows of one sequence as its groups need them: those that waited, then the tile's.
class WaitingRows {
 public:
  WaitingRows(const Call& call, const Compressor& from, const TilePiece& piece, const Tokens& tokens)
      : call_(call), from_(from), piece_(piece), tokens_(tokens), ring_(call.layout().ring(from.ring)) {}

  /// Copies channels [first, first + from.width) of the row of a position.
  void copy(std::int64_t position, std::int64_t first, float* kv, float* score) const {
    const auto bytes = static_cast<std::size_t>(from_.width) * sizeof(float);
    if (position >= piece_.position) {
      const std::int64_t row = piece_.first_row + position - piece_.position;
      std::memcpy(kv, tokens_.kv.row(row) + first, bytes);
      std::memcpy(score, tokens_.score.row(row) + first, bytes);
    } else {
      const auto* row = reinterpret_cast<const float*>(call_.ring_row(piece_, ring_, position));
      std::memcpy(kv, row + first, bytes);
      std::memcpy(score, row + from_.channels() + first, bytes);
    }
  }

  /// The rows wait in the batch: for the next tile, and for wherever the accepted tokens end.
  void keep() const {
    const std::int64_t channels = from_.channels();
    auto* row = reinterpret_cast<float*>(call_.stage(piece_, ring_));
    for (std::int64_t i = 0; i < piece_.rows; ++i, row += 2 * channels) {
      const auto bytes = static_cast<std::size_t>(channels) * sizeof(float);
      std::memcpy(row, tokens_.kv.row(piece_.first_row + i), bytes);
      std::memcpy(row + channels, tokens_.score.row(piece_.first_row + i), bytes);
    }
  }

 private:
  const Call& call_;
  const Compressor& from_;
  const TilePiece& piece_;
  const Tokens& tokens_;
  const RingLayout& ring_;
};

/// kv, score: [from.rows(), width], what group number `group` is pooled from. Before group 0 there is nothing: rows of
/// no weight.
void fill_group(const Compressor& from, const WaitingRows& waiting, std::int64_t group, float* kv, float* score) {
  const std::int64_t own = group * from.ratio;
  if (overlaps(from.ratio)) {
    for (std::int64_t i = 0; i < from.ratio; ++i, kv += from.width, score += from.width) {
      if (group > 0) {
        waiting.copy(own - from.ratio + i, 0, kv, score);
      } else {
        std::fill_n(kv, from.width, 0.0f);
        std::fill_n(score, from.width, -std::numeric_limits<float>::infinity());
      }
    }
  }
  const std::int64_t first = from.channels() - from.width;
  for (std::int64_t i = 0; i < from.ratio; ++i, kv += from.width, score += from.width) {
    waiting.copy(own + i, first, kv, score);
  }
}

/// Pooled and normed latents [groups, width] of the groups that close in the tile.
View<bf16, 2> latents(const Call& call, const Tile& tile, const Compressor& from, View<const bf16, 2> x,
                      const std::vector<ClosedGroups>& closed) {
  const std::int64_t rows = closed.back().first_row + closed.back().count;
  const auto latent = call.arena().tensor<bf16, 2>({rows, from.width});
  const Arena::Scope scope(call.arena());
  const auto pooled = call.arena().tensor<bf16, 2>({rows, from.width});
  const Tokens tokens = project(call, tile, from, x);
  for (std::size_t i = 0; i < closed.size(); ++i) {
    const Arena::Scope group_scope(call.arena());
    const WaitingRows waiting(call, from, tile.pieces[i], tokens);
    const auto kv = call.arena().tensor<float, 3>({closed[i].count, from.rows(), from.width});
    const auto score = call.arena().tensor<float, 3>(kv.shape);
    for (std::int64_t group = 0; group < closed[i].count; ++group) {
      fill_group(from, waiting, closed[i].first_group + group, kv.row(group), score.row(group));
    }
    call.kernels.pool_groups(call.context(), kv, score, pooled.rows(closed[i].first_row, closed[i].count));
    waiting.keep();
  }
  call.kernels.rms_norm(call.context(), pooled, from.weights.norm.data(), call.norm_eps, latent);
  return latent;
}

/// A group is rotated at the position of its first token.
View<const float, 3> group_angles(const Call& call, const std::vector<ClosedGroups>& closed) {
  std::vector<std::int64_t> positions;
  for (const ClosedGroups& groups : closed) {
    for (std::int64_t i = 0; i < groups.count; ++i) positions.push_back((groups.first_group + i) * call.role.ratio);
  }
  return call.angles(positions);
}

}  // namespace

void compress(const Call& call, const Tile& tile, View<const bf16, 2> x) {
  const Arena::Scope scope(call.arena());
  const std::vector<ClosedGroups> closed = closed_groups(call, tile);
  const Compressor rows{*call.weights.compressor, kOpen, call.config.head_dim, call.role.ratio};
  const View<bf16, 2> latent = latents(call, tile, rows, x, closed);
  show_groups(call, "latent", closed, latent);
  const View<const float, 3> angles = group_angles(call, closed);
  call.rotate(latent, call.config.head_dim, angles);
  append_rows(call, kRows, closed, latent);
  show_stored(call, "compress_kv_new", kRows, closed);

  if (!call.weights.indexer) return;
  const Compressor keys{call.weights.indexer->compressor, kOpenKeys, call.config.index_head_dim, call.role.ratio};
  const View<bf16, 2> key = latents(call, tile, keys, x, closed);
  show_groups(call, "index_latent", closed, key);
  call.rotate(key, call.config.index_head_dim, angles);
  call.kernels.hadamard(call.context(), key);
  append_rows(call, kKeys, closed, key);
  show_stored(call, "index_k_new", kKeys, closed);
}

}  // namespace skim::v4

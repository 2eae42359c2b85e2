// The table of operations. Every heavy step of the model goes through it; the model code knows no instruction set.
//
// Rules for every operation: arguments were checked by the caller; the last axis of every view has stride 1; each
// output row is a function of its own input row alone, summed in one order that depends neither on the number of rows
// nor on the number of threads; nothing throws once a parallel region has begun.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/packed_rows.hpp"
#include "formats/quantize.hpp"
#include "kernels/context.hpp"
#include "kernels/memory.hpp"
#include "skim/tensor.hpp"

namespace skim {

// ---- linear ---------------------------------------------------------------------------------------------------------

enum class WeightKind {
  bf16,      ///< bf16 values, no scales.
  f32,       ///< float32 values, no scales.
  fp8_e8m0,  ///< e4m3 codes with e8m0 scales per block x block.
  fp8_f32,   ///< e4m3 codes with float32 scales per block x block.
};

/// How a matrix [out, in] is stored and how its input is quantized.
struct WeightFormat {
  WeightKind kind = WeightKind::bf16;
  std::int64_t out = 0, in = 0;
  int block = 0;                          ///< Side of a scale block, and size of an input group. fp8 only.
  Fp8Scale input_scale = Fp8Scale::pow2;  ///< Kind of the input's scales. fp8 only.

  bool is_fp8() const { return kind == WeightKind::fp8_e8m0 || kind == WeightKind::fp8_f32; }
  std::int64_t block_columns() const { return (in + block - 1) / block; }
  std::int64_t block_rows() const { return (out + block - 1) / block; }
};

/// A weight as a checkpoint holds it: row-major codes [out, in], scales [block_rows, block_columns].
struct WeightSource {
  WeightFormat format;
  const void* values = nullptr;  ///< bf16, float or e4m3 codes, by format.kind.
  const void* scales = nullptr;  ///< e8m0 bytes or floats; null without scales.
};

/// A weight laid out for one kernel set.
struct Weight {
  WeightFormat format;
  Buffer values, scales;  ///< Layout is the set's own business.
  std::int64_t bytes() const { return values.bytes() + scales.bytes(); }
};

// ---- cache rows -----------------------------------------------------------------------------------------------------

/// Rows of one sequence spread over equally large pages.
template <class Byte>
struct PagedRows {
  Byte* const* pages = nullptr;
  std::int64_t rows_per_page = 1;
  std::int64_t row_bytes = 0;

  Byte* row(std::int64_t index) const { return pages[index / rows_per_page] + (index % rows_per_page) * row_bytes; }
};
using ConstPagedRows = PagedRows<const std::byte>;

/// The sliding window of one sequence: committed rows in a ring, rows of the open batch beside it.
struct WindowRows {
  const std::byte* ring = nullptr;
  std::int64_t ring_rows = 1;         ///< Position p lies in slot p mod ring_rows.
  const std::byte* staged = nullptr;  ///< Positions from staged_first on.
  std::int64_t staged_first = 0;
  std::int64_t row_bytes = 0;

  const std::byte* row(std::int64_t position) const {
    return position >= staged_first ? staged + (position - staged_first) * row_bytes
                                    : ring + (position % ring_rows) * row_bytes;
  }
};

// ---- rotation -------------------------------------------------------------------------------------------------------

/// Which elements of a head belong together. Never to be guessed from shapes: it is a property of the place.
enum class RotationStyle {
  tail_adjacent,   ///< Elements 2i and 2i+1 of the last 2*pairs.
  front_halves,    ///< Elements i and pairs+i of the first 2*pairs (V3.2 index vectors).
  front_adjacent,  ///< Elements 2i and 2i+1 of the first 2*pairs (GLM-5 index vectors).
};

struct Rotation {
  View<bf16, 3> x;               ///< [rows, heads, width], rotated in place.
  View<const float, 3> cos_sin;  ///< [rows, pairs, 2]: cosine and sine of each row's angles.
  bool inverse = false;          ///< Rotate by the negative angles.
  RotationStyle style = RotationStyle::tail_adjacent;
};

// ---- index ----------------------------------------------------------------------------------------------------------

/// Positions a query may choose from: [0, visible), or only those inside `blocks`.
struct IndexRange {
  std::int64_t visible = 0;
  bool in_blocks = false;                ///< True: only positions inside `blocks`.
  std::span<const std::int32_t> blocks;  ///< Ascending block numbers; block b holds [b*block_size, (b+1)*block_size).
  int block_size = 0;

  /// Number of scores of this range, the last block cut off where visibility ends; without blocks score i belongs to
  /// position i.
  std::int64_t slots() const {
    if (!in_blocks) return visible;
    if (blocks.empty()) return 0;
    const std::int64_t last = blocks.back();
    const std::int64_t in_last = std::clamp<std::int64_t>(visible - last * block_size, 0, block_size);
    return (static_cast<std::int64_t>(blocks.size()) - 1) * block_size + in_last;
  }
  std::int64_t position(std::int64_t slot) const {
    return in_blocks ? static_cast<std::int64_t>(blocks[static_cast<std::size_t>(slot / block_size)]) * block_size +
                           slot % block_size
                     : slot;
  }
};

struct IndexShape {
  int heads = 0;
  RowLayout layout;  ///< Of each query head and each key.
};

struct IndexQuery {
  const std::byte* query = nullptr;  ///< [heads] packed rows.
  const float* weights = nullptr;    ///< [heads]; bf16 values for fp4_e8m0 rows, for fp8_f32 rows with the scale of
                                     ///< each head's query row multiplied in.
  ConstPagedRows keys;
  IndexRange range;
  float* scores = nullptr;  ///< [range.slots()]; -inf where position >= visible.
};

struct TopkQuery {
  std::span<const float> scores;  ///< [range.slots()]
  IndexRange range;
  int k = 0;
  std::int32_t* positions = nullptr;  ///< [k]; the first *count are written, ascending.
  std::int32_t* count = nullptr;
};

struct BlockQuery {
  std::span<const float> scores;  ///< One per visible position.
  int block_size = 0;
  int k = 1;                       ///< Blocks to keep, the pinned one included; at least 1.
  std::int32_t* blocks = nullptr;  ///< [k]; the first *count are written, ascending.
  std::int32_t* count = nullptr;
};

// ---- attention ------------------------------------------------------------------------------------------------------

/// Where the published attention of a model rounds to bf16.
enum class AttendRounding {
  exponentials,  ///< V4.1: exp(logit - running maximum), for the average of values only.
  logits,        ///< V3.2: both parts of a logit, their sum, the scaled logit, and the normalized probabilities.
};

struct AttendShape {
  int heads = 0;
  int key_width = 0;    ///< Elements of a row that meet the query: the width of both layouts in use.
  int value_width = 0;  ///< Leading elements of a row that are averaged. With AttendRounding::logits a multiple of 32,
                        ///< and the first part of a logit.
  float scale = 0;
  const float* sink = nullptr;  ///< [heads], or null for none; none with AttendRounding::logits.
  RowLayout window_layout;
  RowLayout selected_layout;
  AttendRounding rounding = AttendRounding::exponentials;
};

struct AttendQuery {
  const bf16* query = nullptr;  ///< [heads, key_width]
  WindowRows window;
  std::int64_t window_first = 0;  ///< Positions [window_first, window_first + window_count).
  std::int64_t window_count = 0;
  ConstPagedRows selected_rows;
  std::span<const std::int32_t> selected;  ///< Ascending.
  bf16* out = nullptr;                     ///< [heads, value_width]
  float* log_sum = nullptr;                ///< [heads], or null if nobody asks.
  std::int64_t dense_rows = 0;             ///< Instead of a list: rows [0, dense_rows) of selected_rows.

  /// Rows in all: those of the window, oldest first, then the selected ones.
  std::int64_t rows() const { return window_count + (dense_rows > 0 ? dense_rows : std::ssize(selected)); }
  /// Packed row i of all.
  const std::byte* row(std::int64_t i) const {
    if (i < window_count) return window.row(window_first + i);
    i -= window_count;
    return selected_rows.row(dense_rows > 0 ? i : selected[static_cast<std::size_t>(i)]);
  }
  const RowLayout& layout(const AttendShape& shape, std::int64_t i) const {
    return i < window_count ? shape.window_layout : shape.selected_layout;
  }
};

// ---- the table ------------------------------------------------------------------------------------------------------

struct Kernels {
  /// Lays a checkpoint weight out for `linear` and `linear_f32` of the same set.
  Weight (*pack_weight)(Memory&, const WeightSource&);

  /// y[n, out] = bf16(x[n, in] * W^T), float32 sums over `in` in one fixed order. bf16 weights multiply x as it is,
  /// float32 weights x widened. fp8 weights: each row of x is first quantized over groups of format.block
  /// (fp8_quant), and every group contributes (input scale * weight scale) * sum(code * code).  docs/v41.md, Linear
  /// layers.
  void (*linear)(Context&, View<const bf16, 2> x, const Weight& weight, View<bf16, 2> y);
  /// y is other memory than x. A set may round code * scale to float32 first; scales of released models are exact.
  /// linear_f32 leaves the float32 sums as they are.
  void (*linear_f32)(Context&, View<const bf16, 2> x, const Weight& weight, View<float, 2> y);
  /// `linear` of every group g: y[n, g, out] = x[n, g, in] * W_g^T, for weights [groups] of one format.
  void (*linear_groups)(Context&, View<const bf16, 3> x, std::span<const Weight> weights, View<bf16, 3> y);

  /// y[n, width] = bf16(weight * (x * rsqrt(mean(x^2) + eps))), float32.  Published RMSNorm.
  void (*rms_norm)(Context&, View<const bf16, 2> x, const float* weight, float eps, View<bf16, 2> y);

  /// y[n, width] = bf16((x - mean) / sqrt(variance + eps) * weight + bias), float32.  Published LayerNorm.
  void (*layer_norm)(Context&, View<const bf16, 2> x, const float* weight, const float* bias, float eps,
                     View<bf16, 2> y);

  /// Norm of each head of x[rows, heads, width] without a weight, in place. Every step is rounded to bf16, as
  /// published: u = x * x; m = mean of u (float32 sum); v = m + eps; w = 1 / sqrt(v); x = x * w.  docs/v4.md, step 1.
  void (*norm_heads)(Context&, View<bf16, 3> x, float eps);

  /// Multiplies pairs (a, b) of elements of each head as complex numbers by cos +- i sin, float32, to bf16.
  /// Published apply_rotary_emb.
  void (*rotate)(Context&, const Rotation&);

  /// Walsh-Hadamard transform of each row of x[n, width], in place: y_i = width^-1/2 * sum over j of
  /// (-1)^popcount(i & j) x_j, float32 sums, to bf16. width is a power of two.  Published rotate_activation.
  void (*hadamard)(Context&, View<bf16, 2> x);

  /// Latents of whole groups before their norm: per channel softmax over the group's tokens of `score`, times `kv`,
  /// summed, float32, to bf16.  kv, score: [groups, ratio, width]; latent: [groups, width].  docs/v41.md, step 3.
  void (*pool_groups)(Context&, View<const float, 3> kv, View<const float, 3> score, View<bf16, 2> latent);

  /// Packs x[n, layout.width] into rows [first, first + n).
  void (*pack_rows)(Context&, RowLayout layout, View<const bf16, 2> x, PagedRows<std::byte> rows, std::int64_t first);

  /// score = sum over heads of relu(query_h . key) * weight_h. Published rounding of fp4_e8m0 rows: the dot product,
  /// its product with the weight and the sum are each rounded to bf16. fp8_f32 rows, of one group each: dots of codes,
  /// everything in float32, the sum times the scale of the key.  Published Indexer.forward, fp8_index.
  void (*index_score)(Context&, const IndexShape&, std::span<const IndexQuery>);

  /// The k best scores, the lower position winning a tie; -inf and NaN are never chosen.  docs/v41.md, step 6.
  void (*select_topk)(Context&, std::span<const TopkQuery>);

  /// The k best blocks by their best score, the lower block winning a tie. The block of the last score is always kept
  /// and counts among the k. A block without any finite score is kept only for want of better ones.  docs/v41.md,
  /// step 5.
  void (*select_blocks)(Context&, std::span<const BlockQuery>);

  /// One softmax over the window rows (oldest first) and then the selected rows (ascending), in blocks of 64 with a
  /// running maximum that starts at -1e30: logits = float32(q . row) * scale; probabilities exp(logit - max) are
  /// rounded to bf16 for the average of values, not for the denominator; a sink adds exp(sink - max) to the denominator
  /// only. If exp(logit) is 0 for every row, or there is none, zeros. log_sum = natural logarithm of the sum of
  /// exp(logit) over the rows, the sink left out; -inf if that is 0.  Published sparse_attn_kernel. With
  /// AttendRounding::logits the reference set rounds as the published MLA.forward with absorbed projections does, in
  /// one softmax over all rows; other sets may take the steps above, with logits of either kind.
  void (*attend)(Context&, const AttendShape&, std::span<const AttendQuery>);
};

/// Rows per step of `attend`, part of its definition: probabilities are rounded relative to the maximum so far.
inline constexpr int kAttendBlock = 64;

/// A named implementation of the table.
struct KernelSet {
  std::string_view name;
  std::string_view description;
  std::uint32_t required_features;  ///< CpuFeature bits; 0 runs anywhere.
  Memory& (*memory)();
  const Kernels& (*kernels)();
};

}  // namespace skim

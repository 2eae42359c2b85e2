// Attention on tiles of bf16, in which every V4.1 row is exact. A block of rows is widened once for all heads of a
// task; gathered rows are the left operand of the logits, so no row is transposed, and the softmax runs along heads.
#pragma once

#include "kernels/amx/attend_rows.hpp"

namespace skim::amx {
namespace {

/// Where one task keeps what it works on, as simd::AttendSpace but for the operands of tiles. Heads are padded with
/// zeros.
struct TileAttendSpace {
  std::int64_t heads, steps, row_stride, value_stride;
  bf16* queries;        // right operand: [heads / kTile, steps, kTile pairs, kTile heads, 2]
  bf16* rows;           // left operand: [kAttendBlock, row_stride], zeros where no row is
  std::byte* values;    // right operand: see interleave_rows
  bf16* probabilities;  // left operand: [kValueSteps, heads / kTile, kTile heads, kValueRows]
  float* widened;       // [row_stride], scratch
  float *logits, *second, *average, *maximum, *denominator, *rescale;
  std::int64_t bytes;  // in all

  TileAttendSpace(const AttendShape& shape, std::int64_t head_count, std::byte* memory)
      : heads(simd::round_up(head_count, kTile)), steps((shape.key_width + 31) / 32) {
    value_stride = simd::round_up(shape.value_width, kValueColumns);
    // 32 more, so that the rows of a tile lie in different cache sets.
    row_stride = std::max(simd::round_up(simd::widest_row(shape), 32), value_stride) + 32;
    simd::ScratchPieces pieces(memory);
    queries = pieces.take<bf16>(heads * steps * 32);
    rows = pieces.take<bf16>(kAttendBlock * row_stride);
    values = pieces.take<std::byte>(kAttendBlock * value_stride * 2);
    probabilities = pieces.take<bf16>(heads * kAttendBlock);
    widened = pieces.take<float>(row_stride);
    logits = pieces.take<float>(kAttendBlock * heads);
    second = pieces.take<float>(kAttendBlock * heads);
    average = pieces.take<float>(heads * value_stride);
    maximum = pieces.take<float>(heads);
    denominator = pieces.take<float>(heads);
    rescale = pieces.take<float>(heads);
    bytes = pieces.bytes();
  }
  bf16* row(std::int64_t i) const { return rows + i * row_stride; }
};

/// Query heads of bf16 [count, key_width] into the right operand of the logits.
inline void pack_queries(const AttendShape& shape, const simd::AttendTask& task, const TileAttendSpace& space) {
  const bf16* query = task.query.query + task.first_head * shape.key_width;
  for (std::int64_t tile = 0; tile < space.heads / kTile; ++tile) {
    for (std::int64_t step = 0; step < space.steps; ++step) {
      const std::int64_t left = std::min<std::int64_t>(32, shape.key_width - step * 32);
      const auto elements = static_cast<__mmask32>(left == 32 ? 0xFFFFFFFFu : (1u << left) - 1);
      __m512i heads[kTile];
      for (std::int64_t i = 0; i < kTile; ++i) {
        const std::int64_t head = tile * kTile + i;
        heads[i] = head < task.heads ? _mm512_maskz_loadu_epi16(elements, query + head * shape.key_width + step * 32)
                                     : _mm512_setzero_si512();
      }
      transpose(heads, reinterpret_cast<__m512i*>(space.queries) + (tile * space.steps + step) * kTile);
    }
  }
}

/// Rows [first, first + count) of the task's list as both operands.
inline void load_rows(const AttendShape& shape, const simd::AttendTask& task, std::int64_t first, std::int64_t count,
                      const TileAttendSpace& space) {
  const AttendQuery& query = task.query;
  for (std::int64_t i = 0; i < count; ++i) {
    narrow_row(query.layout(shape, first + i), query.row(first + i), space.widened, space.row(i));
  }
  std::fill_n(space.row(count), (kAttendBlock - count) * space.row_stride, bf16{0});
  interleave_rows(space.rows, space.row_stride, space.value_stride, space.values);
}

/// to[count, heads] = rows, elements [first, first + width), times queries.
inline void multiply_keys(const TileAttendSpace& space, std::int64_t count, std::int64_t first, std::int64_t width,
                          float* to) {
  const std::int64_t row_bytes = space.row_stride * 2, step = first / 32;
  const Operand rows{space.rows + first, row_bytes, kTile * row_bytes, 64};
  const Operand queries{space.queries + step * kTileBytes / 2, 64, space.steps * kTileBytes, kTileBytes};
  multiply_tiles<Bf16Product>(rows, queries, (count + kTile - 1) / kTile, space.heads / kTile, (width + 31) / 32, false,
                              {to, space.heads * 4, kTile * space.heads * 4, kTile * 4});
}

/// Probabilities [kAttendBlock, heads] of `count` rows into the left operand of the average, pairs of rows side by
/// side.
inline void pack_probabilities(const TileAttendSpace& space, std::int64_t count) {
  std::fill_n(space.logits + count * space.heads, (kAttendBlock - count) * space.heads, 0.0f);
  const std::int64_t head_tiles = space.heads / kTile;
  for (std::int64_t step = 0; step < kValueSteps; ++step) {
    for (std::int64_t tile = 0; tile < head_tiles; ++tile) {
      __m512i pairs[kTile];
      for (std::int64_t i = 0; i < kTile; ++i) {
        const float* even = space.logits + (step * kValueRows + 2 * i) * space.heads + tile * kTile;
        const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(_mm512_load_ps(even)), 16);
        pairs[i] = _mm512_mask_blend_epi16(0xAAAAAAAA, low, _mm512_castps_si512(_mm512_load_ps(even + space.heads)));
      }
      transpose(pairs, reinterpret_cast<__m512i*>(space.probabilities) + (step * head_tiles + tile) * kTile);
    }
  }
}

/// average = average * rescale + probabilities^T rows.
inline void average_values(const TileAttendSpace& space, std::int64_t heads, std::int64_t count) {
  pack_probabilities(space, count);
  for (std::int64_t h = 0; h < heads; ++h) {
    if (space.rescale[h] == 1.0f) continue;
    float* const row = space.average + h * space.value_stride;
    for (std::int64_t c = 0; c < space.value_stride; c += Vector::kLanes) {
      simd::store<Vector>(row + c, simd::load<Vector>(row + c) * space.rescale[h]);
    }
  }
  const std::int64_t head_tiles = space.heads / kTile, stride = space.value_stride * 4;
  for (std::int64_t column = 0; column < space.value_stride; column += kValueColumns) {
    multiply_tiles<Bf16Product>({space.probabilities, 64, kTileBytes, head_tiles * kTileBytes},
                                {space.values + column * kAttendBlock * 2, 64, kTileBytes, 2 * kTileBytes}, head_tiles,
                                2, kValueSteps, true, {space.average + column, stride, kTile * stride, kTile * 4});
  }
}

inline void attend_heads(const AttendShape& shape, const simd::AttendTask& task, const TileAttendSpace& space) {
  const TileScope tiles(2 * kTile);
  pack_queries(shape, task, space);
  std::fill_n(space.rows, kAttendBlock * space.row_stride, bf16{0});
  std::fill_n(space.widened, space.row_stride, 0.0f);
  simd::start_heads(space, space.heads);
  for (std::int64_t first = 0; first < task.rows(); first += kAttendBlock) {
    const std::int64_t count = std::min<std::int64_t>(kAttendBlock, task.rows() - first);
    load_rows(shape, task, first, count, space);
    simd::compute_logits<Vector>(shape, space, count, [&](std::int64_t part, std::int64_t width, float* to) {
      multiply_keys(space, count, part, width, to);
    });
    simd::soften<Vector>(space, count);
    average_values(space, task.heads, count);
  }
  for (std::int64_t h = 0; h < task.heads; ++h) {
    order_columns(space.average + h * space.value_stride, space.value_stride);
    simd::finish_head<Vector>(shape, task.query, task.first_head, h, space);
  }
}

inline void attend(Context& context, const AttendShape& shape, std::span<const AttendQuery> queries) {
  simd::attend_tasks(
      context, shape, queries, kTile, [&](std::int64_t heads) { return TileAttendSpace(shape, heads, nullptr).bytes; },
      [&](const simd::AttendTask& task, std::byte* scratch) {
        attend_heads(shape, task, TileAttendSpace(shape, task.heads, scratch));
      });
}

}  // namespace
}  // namespace skim::amx

// Index scores on tiles. V4.1: keys and heads as bytes of twice their values, one product per group of 32, so that sums
// are exact integers until their scales join in. V3.2: codes as bf16, which holds each exactly.
#pragma once

#include "kernels/amx/tiles.hpp"
#include "kernels/amx/widen.hpp"
#include "kernels/avx512/vector.hpp"
#include "kernels/simd/index.hpp"

namespace skim::amx {
namespace {

using avx512::Vector;
using simd::kKeys;

/// Keys of one block of tiles.
inline constexpr std::int64_t kBlockKeys = 2 * kTile;

/// Sums of one block: [groups, kBlockKeys, heads], behind the space that the vector kernels use.
inline std::int64_t fp4_bytes(const IndexShape& shape) {
  const simd::Fp4IndexSpace<Vector> space(shape, nullptr);
  return space.bytes + space.groups * kBlockKeys * space.panels * simd::kPanel<Vector> * 4;
}

/// sums[group][key][head] of kBlockKeys keys from `first` on.
inline void dot_block(const simd::Fp4IndexSpace<Vector>& space, std::int64_t first, std::int32_t* sums) {
  constexpr std::int64_t kPanelHeads = simd::kPanel<Vector>;
  const std::int64_t heads = space.panels * kPanelHeads;
  for (std::int64_t group = 0; group < space.groups; ++group) {
    for (std::int64_t panel = 0; panel < space.panels; ++panel) {
      const Operand keys{space.keys + first * space.width + group * simd::kIndexGroup, space.width, kTile * space.width,
                         0};
      const Operand queries{space.heads + (panel * space.groups + group) * simd::kIndexGroup * kPanelHeads,
                            kPanelHeads * 4, kTile * 4, 0};
      multiply_block<Int8Product, 2, 2>(
          keys, queries, 1, false,
          {sums + group * kBlockKeys * heads + panel * kPanelHeads, heads * 4, kTile * heads * 4, kTile * 4});
    }
  }
}

inline void score_fp4_task(const IndexShape& shape, const IndexTask& task, std::byte* scratch) {
  const simd::Fp4IndexSpace<Vector> space(shape, scratch);
  auto* const sums = reinterpret_cast<std::int32_t*>(scratch + space.bytes);
  const std::int64_t heads = space.panels * simd::kPanel<Vector>;
  const TileScope tiles(kBlockKeys, simd::kIndexGroup);
  simd::pack_heads(shape, *task.query, space);
  simd::for_keys(task, [&](std::int64_t first, std::int64_t count, float* scores) {
    simd::unpack_keys(shape, *task.query, first, count, simd::kTwice, kBlockKeys, space);
    for (std::int64_t block = 0; block < count; block += kBlockKeys) {
      dot_block(space, block, sums);
      simd::combine_heads<Vector, 1>(
          space, block, std::min(count, block + kBlockKeys), scores,
          [&](std::int64_t panel, std::int64_t key, simd::Floats<Vector>(&dots)[1][2]) {
            for (std::int64_t group = 0; group < space.groups; ++group) {
              const auto key_scale = simd::spread<Vector>(space.key_scales[key * space.groups + group]);
              for (int half = 0; half < 2; ++half) {
                const std::int64_t head = half * Vector::kLanes;
                const auto sum = *reinterpret_cast<const simd::Ints<Vector>*>(
                    sums + (group * kBlockKeys + key - block) * heads + panel * simd::kPanel<Vector> + head);
                const auto scale = simd::load<Vector>(space.head_scales +
                                                      (panel * space.groups + group) * simd::kPanel<Vector> + head);
                dots[0][half] = Vector::multiply_add(Vector::to_floats(sum), scale * key_scale, dots[0][half]);
              }
            }
          });
    }
  });
}

/// Codes that one step of a tile takes of an fp8 row.
inline constexpr int kStepCodes = 32;

struct Fp8Space {
  std::int64_t heads, steps;
  bf16* queries;               // right operand: [heads / kTile, steps, kTile pairs, kTile heads, 2]
  bf16* keys;                  // left operand: [kKeys, steps * kStepCodes], of each 64 codes in the order of E4m3Table
  float* weights;              // [heads], 0 beyond the last head
  float* dots;                 // [kKeys, heads]
  const std::byte** key_rows;  // [kKeys]
  std::int64_t bytes;

  Fp8Space(const IndexShape& shape, std::byte* memory)
      : heads(simd::round_up(shape.heads, kTile)), steps(simd::round_up(shape.layout.width, 64) / kStepCodes) {
    simd::ScratchPieces pieces(memory);
    queries = pieces.take<bf16>(heads * steps * kStepCodes);
    keys = pieces.take<bf16>(kKeys * steps * kStepCodes);
    weights = pieces.take<float>(heads);
    dots = pieces.take<float>(kKeys * heads);
    key_rows = pieces.take<const std::byte*>(kKeys);
    bytes = pieces.bytes();
  }
};

/// Up to 64 codes, then zeros, as E4m3Table leaves them.
inline void widen_codes(const E4m3Table& table, const std::uint8_t* codes, std::int64_t count, bf16* to) {
  alignas(64) std::uint8_t padded[64] = {};
  if (count < 64) {
    std::copy_n(codes, count, padded);
    codes = padded;
  }
  auto* const words = reinterpret_cast<__m512i*>(to);
  table.widen(codes, words[0], words[1]);
}

inline void widen_row_codes(const E4m3Table& table, const IndexShape& shape, const std::byte* row, bf16* to) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(row);
  for (std::int64_t k = 0; k < shape.layout.width; k += 64) {
    widen_codes(table, codes + k, std::min<std::int64_t>(64, shape.layout.width - k), to + k);
  }
}

inline void pack_heads(const E4m3Table& table, const IndexShape& shape, const IndexQuery& query,
                       const Fp8Space& space) {
  std::fill_n(space.queries, space.heads * space.steps * kStepCodes, bf16{0});
  std::fill_n(space.weights, space.heads, 0.0f);
  std::copy_n(query.weights, shape.heads, space.weights);
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    bf16* const row = space.keys;  // free until the keys come
    widen_row_codes(table, shape, query.query + h * shape.layout.bytes(), row);
    for (std::int64_t k = 0; k < space.steps * kStepCodes; ++k) {
      const std::int64_t pair = (h / kTile * space.steps * kTile) + k / 2;
      space.queries[(pair * kTile + h % kTile) * 2 + k % 2] = row[k];
    }
  }
}

inline void score_fp8_task(const IndexShape& shape, const IndexTask& task, std::byte* scratch) {
  const Fp8Space space(shape, scratch);
  const E4m3Table table;
  const TileScope tiles(kBlockKeys);
  const std::int64_t row_bytes = space.steps * kStepCodes * 2;
  pack_heads(table, shape, *task.query, space);
  simd::for_keys(task, [&](std::int64_t first, std::int64_t count, float* scores) {
    simd::list_keys(*task.query, first, count, space.key_rows);
    std::fill_n(space.keys, kKeys * space.steps * kStepCodes, bf16{0});
    for (std::int64_t i = 0; i < count; ++i) {
      if (space.key_rows[i] != nullptr) {
        widen_row_codes(table, shape, space.key_rows[i], space.keys + i * space.steps * kStepCodes);
      }
    }
    multiply_tiles<Bf16Product>({space.keys, row_bytes, kTile * row_bytes, 64},
                                {space.queries, 64, space.steps * kTileBytes, kTileBytes},
                                simd::round_up(count, kBlockKeys) / kTile, space.heads / kTile, space.steps, false,
                                {space.dots, space.heads * 4, kTile * space.heads * 4, kTile * 4});
    simd::combine_heads<Vector>(shape, space, count, scores);
  });
}

inline void index_score(Context& context, const IndexShape& shape, std::span<const IndexQuery> queries) {
  const bool fp8 = shape.layout.format == RowFormat::fp8_f32;
  simd::score_tasks(context, queries, fp8 ? Fp8Space(shape, nullptr).bytes : fp4_bytes(shape),
                    [&](const IndexTask& task, std::byte* scratch) {
                      (fp8 ? score_fp8_task : score_fp4_task)(shape, task, scratch);
                    });
}

}  // namespace
}  // namespace skim::amx

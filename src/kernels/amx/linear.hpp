// y = x W^T on tiles of bf16, in which every dequantized operand of V4.1 is exact. Scales that are no powers of two
// multiply the sums of whole groups instead. Every sum is one chain over k, or over groups, whatever the number of
// rows.
#pragma once

#include "kernels/amx/weights.hpp"
#include "kernels/simd/linear.hpp"

namespace skim::amx {
namespace {

/// Steps widened at one time: 32 KiB of a panel.
inline constexpr std::int64_t kChunkSteps = 16;
/// Rows of a task; their inputs over a chunk are 128 KiB.
inline constexpr std::int64_t kMostRows = 128;
/// Panels of a task, at most; with one row they are 128 columns.
inline constexpr std::int64_t kMostPanels = 16, kFewPanels = 4;

/// Inputs of one group of weights: bf16 [rows, depth], and for scales_groups one scale per row and group of inputs.
struct TileInput {
  bf16* values;
  float* scales;
  std::int64_t rows;
};

/// What every task of a call needs to know.
template <class Out>
struct TileCall {
  simd::Products<Out> products;
  TileLayout layout;
  std::int64_t values_per_group, scales_per_group;
  bf16* values;
  float* scales;

  TileCall(Arena& arena, const simd::Products<Out>& products_)
      : products(products_),
        layout(products.format()),
        values_per_group(products.rows() * layout.depth()),
        scales_per_group(scales_groups(products.format()) ? products.rows() * layout.scale_count() : 0),
        values(arena.take<bf16>(products.groups() * values_per_group)),
        scales(arena.take<float>(products.groups() * scales_per_group)) {}
  TileInput input(std::int64_t group) const {
    return {values + group * values_per_group, scales + group * scales_per_group, products.rows()};
  }
};

/// Row `row` of group `group` as the layer sees it. scratch: [format.block].
template <class Out>
void narrow_input_row(const TileCall<Out>& call, std::int64_t group, std::int64_t row, float* scratch) {
  const WeightFormat& format = call.products.format();
  const TileInput input = call.input(group);
  const bf16* x = &call.products.x(row, group, 0);
  bf16* const to = input.values + row * call.layout.depth();
  std::fill(to + format.in, to + call.layout.depth(), bf16{0});
  if (!format.is_fp8()) {
    std::copy_n(x, format.in, to);
    return;
  }
  for (std::int64_t first = 0, g = 0; first < format.in; first += format.block, ++g) {
    const std::int64_t count = std::min<std::int64_t>(format.block, format.in - first);
    const float scale = simd::quantize_any_group<Vector>(x + first, count, format.input_scale, scratch);
    if (scales_groups(format)) input.scales[row * call.layout.scale_count() + g] = scale;
    for (std::int64_t i = 0; i < count; ++i) {
      to[first + i] = {static_cast<std::uint16_t>(
          std::bit_cast<std::uint32_t>(scales_groups(format) ? scratch[i] : scratch[i] * scale) >> 16)};
    }
  }
}

/// totals [rows, kColumns] of one panel += over `steps` steps from `first` on, all of one scale group.
template <class Out>
void add_scaled(const TileCall<Out>& call, const simd::Share::Task& task, const Operand& right, std::int64_t panel,
                std::int64_t first, std::int64_t steps, bool more, float* totals, TileScope& tiles) {
  alignas(64) float sums[kColumns * kColumns];
  const TileInput input = call.input(task.group);
  const std::int64_t groups = call.layout.scale_count(), g = first / call.layout.steps_per_scale;
  const float weight_scale =
      call.products.weights[static_cast<std::size_t>(task.group)].scales.template as<float>()[panel * groups + g];
  for (std::int64_t i = 0; i < task.rows; i += kColumns) {
    const std::int64_t rows = std::min<std::int64_t>(kColumns, task.rows - i), row = task.first_row + i;
    tiles.set_rows(rows);
    const std::int64_t row_bytes = call.layout.depth() * 2;
    multiply_tiles<Bf16Product>(
        {input.values + row * call.layout.depth() + first * kStep, row_bytes, kTile * row_bytes, 2 * kStep}, right,
        rows > kTile ? 2 : 1, 2, steps, false, {sums, kColumns * 4, kTile * kColumns * 4, kTile * 4});
    for (std::int64_t j = 0; j < rows; ++j) {
      const auto scale = simd::spread<Vector>(input.scales[(row + j) * groups + g] * weight_scale);
      for (int c = 0; c < kColumns; c += Vector::kLanes) {
        float* const total = totals + (i + j) * kColumns + c;
        const auto part = simd::load<Vector>(sums + j * kColumns + c);
        simd::store<Vector>(total, more ? Vector::multiply_add(part, scale, simd::load<Vector>(total)) : part * scale);
      }
    }
  }
}

/// totals = or += the products of one chunk of steps.
template <class Out>
void multiply_chunk(const TileCall<Out>& call, const simd::Share::Task& task, std::int64_t panel, std::int64_t first,
                    std::byte* room, float* totals, TileScope& tiles) {
  const Weight& weight = call.products.weights[static_cast<std::size_t>(task.group)];
  const std::int64_t steps = std::min(kChunkSteps, call.layout.steps - first);
  const Operand right = panel_operand(weight, call.layout, panel, first, steps, room);
  if (scales_groups(weight.format)) {
    for (std::int64_t step = 0; step < steps; step += call.layout.steps_per_scale) {
      const std::int64_t count = std::min<std::int64_t>(call.layout.steps_per_scale, steps - step);
      add_scaled(call, task, {right.at(0, step), right.row_bytes, right.tile_bytes, right.step_bytes}, panel,
                 first + step, count, first + step > 0, totals, tiles);
    }
    return;
  }
  const std::int64_t row_bytes = call.layout.depth() * 2;
  for (std::int64_t i = 0; i < task.rows; i += kColumns) {
    const std::int64_t rows = std::min<std::int64_t>(kColumns, task.rows - i);
    tiles.set_rows(rows);
    multiply_tiles<Bf16Product>(
        {call.input(task.group).values + (task.first_row + i) * call.layout.depth() + first * kStep, row_bytes,
         kTile * row_bytes, 2 * kStep},
        right, rows > kTile ? 2 : 1, 2, steps, first > 0,
        {totals + i * kColumns, kColumns * 4, kTile * kColumns * 4, kTile * 4});
  }
}

/// scratch: a widened chunk, then the totals of each panel.
template <class Out>
void run_task(const TileCall<Out>& call, const simd::Share::Task& task, std::byte* scratch) {
  TileScope tiles(std::min<std::int64_t>(kColumns, task.rows));
  auto* const totals = reinterpret_cast<float*>(scratch + kChunkSteps * kStepBytes);
  const std::int64_t panel_floats = task.rows * kColumns;
  for (std::int64_t first = 0; first < call.layout.steps; first += kChunkSteps) {
    for (std::int64_t panel = task.first_panel; panel < task.last_panel; ++panel) {
      multiply_chunk(call, task, panel, first, scratch, totals + (panel - task.first_panel) * panel_floats, tiles);
    }
  }
  const View<Out, 2> y = call.products.y_of(task.group);
  for (std::int64_t panel = task.first_panel; panel < task.last_panel; ++panel) {
    simd::store_panel<Vector>({totals + (panel - task.first_panel) * panel_floats, kColumns, 0}, task.rows, panel,
                              task.first_row, y);
  }
}

inline simd::Share share_of(int threads, std::int64_t groups, std::int64_t rows, std::int64_t panels) {
  const std::int64_t row_blocks = (rows + kMostRows - 1) / kMostRows;
  const std::int64_t most_panels = rows <= kTile ? kFewPanels : kMostPanels;
  const std::int64_t wanted = (4 * threads + groups * row_blocks - 1) / (groups * row_blocks);
  return {groups, rows, panels, row_blocks,
          std::min(panels, std::max((panels + most_panels - 1) / most_panels, wanted))};
}

template <class Out>
void multiply_part(Context& context, const simd::Products<Out>& products) {
  const Arena::Scope scope(context.arena());
  const TileCall<Out> call(context.arena(), products);
  const simd::Share share = share_of(context.threads(), products.groups(), products.rows(), call.layout.panels);
  context.reserve_thread_scratch(std::max<std::int64_t>(
      products.format().block * 4, kChunkSteps * kStepBytes + share.most_rows() * share.most_panels() * kColumns * 4));
  parallel_for(
      context, products.groups() * products.rows(), 2 * products.format().in, [&](std::int64_t item, int thread) {
        narrow_input_row(call, item / products.rows(), item % products.rows(), context.thread_scratch<float>(thread));
      });
  parallel_for(context, share.tasks(), share.most_rows() * share.most_panels() * call.layout.depth(),
               [&](std::int64_t item, int thread) {
                 run_task(call, share.task(item), context.thread_scratch<std::byte>(thread));
               });
}

template <class Out>
void multiply(Context& context, const simd::Products<Out>& products) {
  if (products.is_empty()) return;
  if (!is_tiled(products.weights[0])) {
    simd::multiply<Vector>(context, products);
  } else {
    products.for_parts([&](const simd::Products<Out>& part) { multiply_part(context, part); });
  }
}

}  // namespace
}  // namespace skim::amx

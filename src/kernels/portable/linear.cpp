// y = x W^T. Activations are widened once per call; weights are widened a panel of columns at a time, from the layout
// of reference::pack_weight, and used for a block of rows while they lie in the second-level cache.
//
// Order of a sum: lanes within kDepth elements (add_dots), then these blocks ascending. Nothing else depends on shapes.
#include <algorithm>
#include <span>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "kernels/parallel.hpp"
#include "kernels/portable/portable.hpp"
#include "kernels/portable/vectors.hpp"
#include "kernels/portable/widen.hpp"

namespace skim::portable {
namespace {

// Four rows of x and three of W over kDepth floats are 14 KiB, which leaves the first-level cache room to prefetch.
constexpr std::int64_t kDepth = 512;
// A panel is kPanel * kDepth floats = 96 KiB, for the second-level cache; the rows of x come from farther away, once
// per panel. Widening it costs about as much as 4 rows of products.
constexpr std::int64_t kPanel = 48;
// With few rows a panel is used once or twice, so it should not leave the first-level cache: 12 KiB.
constexpr std::int64_t kNarrowPanel = 6, kFewRows = 4;
// Rows at one time. Bounds scratch memory to kChunkRows * in floats and keeps the rows in the last-level cache.
constexpr std::int64_t kChunkRows = 512;
// Rows that one task computes, at most and (if a call has more) at least.
constexpr std::int64_t kMostTaskRows = 256, kLeastTaskRows = 64;

/// Activations [rows, in] as floats, cut along `in`: block b is [rows, depth(b)], rows padded with zeros.
struct WideInput {
  float* values = nullptr;
  std::int64_t rows = 0, in = 0;

  static std::int64_t floats(std::int64_t rows, std::int64_t in) { return rows * round_up(in, kLanes); }
  std::int64_t blocks() const { return (in + kDepth - 1) / kDepth; }
  std::int64_t depth(std::int64_t block) const { return std::min(kDepth, round_up(in, kLanes) - block * kDepth); }
  float* row(std::int64_t block, std::int64_t i) const { return values + block * kDepth * rows + i * depth(block); }
};

/// Row x[in] as the linear layer sees it; an fp8 layer sees what its quantizer leaves. codes: [format.block], scratch.
void widen_input_row(const WeightFormat& format, const bf16* x, std::uint8_t* codes, float* wide) {
  if (!format.is_fp8()) {
    widen_bf16(x, format.in, wide);
    return;
  }
  for (std::int64_t first = 0; first < format.in; first += format.block) {
    const std::int64_t count = std::min<std::int64_t>(format.block, format.in - first);
    const std::span<const bf16> group(x + first, static_cast<std::size_t>(count));
    const float scale = fp8_group_scale(group, format.input_scale);
    fp8_group_codes(group, scale, codes);
    widen_e4m3(codes, count, scale, wide + first);
  }
}

void widen_input(Context& context, const WeightFormat& format, View<const bf16, 2> x, const WideInput& wide) {
  const std::int64_t padded = round_up(format.in, kLanes);
  context.reserve_thread_scratch(padded * static_cast<std::int64_t>(sizeof(float)) + format.block);
  parallel_for(context, x.shape[0], 10 * format.in, [&](std::int64_t i, int thread) {
    float* row = context.thread_scratch<float>(thread);
    std::fill(row + format.in, row + padded, 0.0f);
    widen_input_row(format, x.row(i), reinterpret_cast<std::uint8_t*>(row + padded), row);
    for (std::int64_t block = 0; block < wide.blocks(); ++block) {
      std::copy_n(row + block * kDepth, wide.depth(block), wide.row(block, i));
    }
  });
}

float scale_value(std::uint8_t e8m0) { return e8m0_to_float(e8m0); }
float scale_value(float scale) { return scale; }

/// Elements [first, last) of row `column` of an fp8 weight. Scale is the stored type of a scale.
template <class Scale>
void widen_fp8_weight(const Weight& weight, std::int64_t column, std::int64_t first, std::int64_t last, float* wide) {
  const std::int64_t block = weight.format.block;
  const std::uint8_t* codes = weight.values.as<std::uint8_t>() + column * weight.format.in;
  const Scale* scale = weight.scales.as<Scale>() + column / block * weight.format.block_columns() + first / block;
  for (std::int64_t k = first, end = (first / block + 1) * block; k < last; k = end, end += block, ++scale) {
    widen_e4m3(codes + k, std::min(end, last) - k, scale_value(*scale), wide + (k - first));
  }
}

/// Elements [first, first + depth) of row `column` of the weight, zeros beyond its end.
void widen_weight(const Weight& weight, std::int64_t column, std::int64_t first, std::int64_t depth, float* wide) {
  const WeightFormat& format = weight.format;
  const std::int64_t last = std::min(first + depth, format.in);
  const std::int64_t start = column * format.in + first;
  switch (format.kind) {
    case WeightKind::bf16:
      widen_bf16(weight.values.as<bf16>() + start, last - first, wide);
      break;
    case WeightKind::f32:
      std::copy_n(weight.values.as<float>() + start, last - first, wide);
      break;
    case WeightKind::fp8_e8m0:
      widen_fp8_weight<std::uint8_t>(weight, column, first, last, wide);
      break;
    case WeightKind::fp8_f32:
      widen_fp8_weight<float>(weight, column, first, last, wide);
      break;
  }
  std::fill(wide + (last - first), wide + depth, 0.0f);
}

/// What one task computes, and its scratch.
struct Task {
  std::int64_t first_row, rows, first_column, columns;
  float* panel;  // [columns, kDepth]
  float* sums;   // [rows, columns]
};

void compute(const WideInput& input, const Weight& weight, const Task& task) {
  std::fill_n(task.sums, task.rows * task.columns, 0.0f);
  for (std::int64_t block = 0; block < input.blocks(); ++block) {
    const std::int64_t depth = input.depth(block);
    for (std::int64_t j = 0; j < task.columns; ++j) {
      widen_weight(weight, task.first_column + j, block * kDepth, depth, task.panel + j * depth);
    }
    add_dots({input.row(block, task.first_row), task.rows, depth}, {task.panel, task.columns, depth}, depth, task.sums,
             task.columns);
  }
}

/// Rows of one task: few enough that every thread finds several tasks.
std::int64_t task_rows(const Context& context, std::int64_t rows, std::int64_t panels) {
  const std::int64_t wanted_blocks = (4 * context.threads() + panels - 1) / panels;
  return std::clamp((rows + wanted_blocks - 1) / wanted_blocks, kLeastTaskRows, kMostTaskRows);
}

template <class Store>
void multiply_chunk(Context& context, View<const bf16, 2> x, const Weight& weight, Store store_sum) {
  const WeightFormat& format = weight.format;
  const Arena::Scope scope(context.arena());
  const WideInput input{context.arena().take<float>(WideInput::floats(x.shape[0], format.in)), x.shape[0], format.in};
  widen_input(context, format, x, input);

  const Tiles panels(format.out, kPanel);
  const Tiles row_blocks(input.rows, task_rows(context, input.rows, panels.tiles));
  context.reserve_thread_scratch((kDepth + kMostTaskRows) * kPanel * static_cast<std::int64_t>(sizeof(float)));
  parallel_for(
      context, panels.tiles * row_blocks.tiles, kPanel * format.in * row_blocks.size(0),
      [&](std::int64_t item, int thread) {
        const std::int64_t panel = item % panels.tiles, row_block = item / panels.tiles;
        Task task{
            row_blocks.first(row_block), row_blocks.size(row_block), 0, 0, context.thread_scratch<float>(thread), {}};
        task.sums = task.panel + kDepth * kPanel;
        const std::int64_t last_column = panels.first(panel + 1);
        const std::int64_t width = task.rows <= kFewRows ? kNarrowPanel : kPanel;
        for (task.first_column = panels.first(panel); task.first_column < last_column; task.first_column += width) {
          task.columns = std::min(width, last_column - task.first_column);
          compute(input, weight, task);
          for (std::int64_t i = 0; i < task.rows; ++i) {
            for (std::int64_t j = 0; j < task.columns; ++j) {
              store_sum(task.first_row + i, task.first_column + j, task.sums[i * task.columns + j]);
            }
          }
        }
      });
}

}  // namespace

void linear(Context& context, View<const bf16, 2> x, const Weight& weight, View<bf16, 2> y) {
  for (std::int64_t first = 0; first < x.shape[0]; first += kChunkRows) {
    const std::int64_t rows = std::min(kChunkRows, x.shape[0] - first);
    const View<bf16, 2> part = y.rows(first, rows);
    multiply_chunk(context, x.rows(first, rows), weight,
                   [part](std::int64_t row, std::int64_t column, float sum) { part(row, column) = to_bf16(sum); });
  }
}

void linear_f32(Context& context, View<const bf16, 2> x, const Weight& weight, View<float, 2> y) {
  for (std::int64_t first = 0; first < x.shape[0]; first += kChunkRows) {
    const std::int64_t rows = std::min(kChunkRows, x.shape[0] - first);
    const View<float, 2> part = y.rows(first, rows);
    multiply_chunk(context, x.rows(first, rows), weight,
                   [part](std::int64_t row, std::int64_t column, float sum) { part(row, column) = sum; });
  }
}

}  // namespace skim::portable

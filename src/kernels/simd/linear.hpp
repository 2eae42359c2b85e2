// y = x W^T over panels. A few rows read the weights as they are stored, each panel once; for more rows a stretch of a
// panel is widened once and used while it lies in the first-level cache. Both sum in the same order: k ascending within
// a stretch, then the stretches.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/parallel.hpp"
#include "kernels/simd/input.hpp"

namespace skim::simd {

// Rows at one time. Bounds scratch memory to kChunkRows * in floats.
inline constexpr std::int64_t kChunkRows = 512;
// A task of many rows: a stretch of its inputs is 128 KiB and its sums 256 KiB, for the second-level cache.
inline constexpr std::int64_t kTaskRows = 128, kTaskFloats = 65'536;
// Panels that a task of few rows reads; four at a time for a single row, so that 8 sums hide the latency of the adder.
inline constexpr std::int64_t kTaskPanels = 4;
// Widened inputs at one time, of all groups: 32 MiB.
inline constexpr std::int64_t kWideFloats = 1 << 23;

/// y[n, g, out] = x[n, g, in] * W_g^T for weights of one format.
template <class Out>
struct Products {
  View<const bf16, 3> x;
  std::span<const Weight> weights;
  View<Out, 3> y;

  std::int64_t rows() const { return x.shape[0]; }
  std::int64_t groups() const { return std::ssize(weights); }
  const WeightFormat& format() const { return weights[0].format; }
  View<Out, 2> y_of(std::int64_t group) const {
    return {y.data + group * y.strides[1], {y.shape[0], y.shape[2]}, {y.strides[0], y.strides[2]}};
  }
  bool is_empty() const { return rows() == 0 || groups() == 0 || format().out == 0; }
  /// Calls use(part) for parts whose widened inputs stay within kWideFloats, unless a single group is more.
  template <class Use>
  void for_parts(Use use) const {
    const std::int64_t depth = std::max<std::int64_t>(1, format().in), row_count = std::min(kChunkRows, rows());
    const std::int64_t group_count = std::clamp<std::int64_t>(kWideFloats / (row_count * depth), 1, groups());
    for (std::int64_t row = 0; row < rows(); row += row_count) {
      for (std::int64_t group = 0; group < groups(); group += group_count) {
        use(part(row, std::min(row_count, rows() - row), group, std::min(group_count, groups() - group)));
      }
    }
  }

 private:
  Products part(std::int64_t first_row, std::int64_t row_count, std::int64_t first_group,
                std::int64_t group_count) const {
    Products some = *this;
    some.x.data += first_row * x.strides[0] + first_group * x.strides[1];
    some.y.data += first_row * y.strides[0] + first_group * y.strides[1];
    some.x.shape[0] = some.y.shape[0] = row_count;
    some.x.shape[1] = some.y.shape[1] = group_count;
    some.weights = weights.subspan(static_cast<std::size_t>(first_group), static_cast<std::size_t>(group_count));
    return some;
  }
};

/// Writes sums [rows, kPanel] of one panel to rows [first_row, ..) of y.
template <class V, class Out>
void store_panel(const Sums& sums, std::int64_t rows, std::int64_t panel, std::int64_t first_row, View<Out, 2> y) {
  const std::int64_t column = panel * kPanel<V>;
  const std::int64_t count = std::min<std::int64_t>(kPanel<V>, y.shape[1] - column);
  for (std::int64_t i = 0; i < rows; ++i) {
    store_sums<V>(sums.data + i * sums.row_stride, count, y.row(first_row + i) + column);
  }
}

/// At most kTileRows rows by kPanels panels.
template <class V, int kRows, int kPanels, class W>
void multiply_few(const W& weight, const WideInput& input, std::int64_t panel, float* sums) {
  const Sums out{sums, kPanels * kPanel<V>, kPanel<V>};
  for (std::int64_t s = 0; s < input.stretches(); ++s) {
    const LeftRows left{input.row(s, 0), kStretch, 1};
    const auto add = [&](auto& tile) {
      weight.template add<kRows, kPanels>(left, panel, s * kStretch, input.length(s), tile);
    };
    if (s == 0) {
      into_tile<V, Into::replace, kRows, kPanels>(out, nullptr, add);
    } else {
      into_tile<V, Into::add, kRows, kPanels>(out, nullptr, add);
    }
  }
}

/// Panels [first, last) for a few rows. sums: [kTileRows, kTaskPanels * kPanel], scratch.
template <class V, class W, class Out>
void few_rows_task(const W& weight, const WideInput& input, std::int64_t first, std::int64_t last, float* sums,
                   View<Out, 2> y) {
  for_row_tiles<V::kTileRows>(input.rows, [&]<int kRows>(std::integral_constant<int, kRows>, std::int64_t) {
    constexpr int kPanels = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
    std::int64_t panel = first;
    for (; panel + kPanels <= last; panel += kPanels) {
      multiply_few<V, kRows, kPanels>(weight, input, panel, sums);
      for (int p = 0; p < kPanels; ++p) {
        store_panel<V>({sums + p * kPanel<V>, kPanels * kPanel<V>, 0}, kRows, panel + p, 0, y);
      }
    }
    for (; panel < last; ++panel) {
      multiply_few<V, kRows, 1>(weight, input, panel, sums);
      store_panel<V>({sums, kPanel<V>, 0}, kRows, panel, 0, y);
    }
  });
}

/// How the work of a call is cut into tasks of about equal size: row blocks by blocks of panels of one group.
struct Share {
  struct Task {
    std::int64_t group, first_row, rows, first_panel, last_panel;
  };
  std::int64_t groups, rows, panels, row_blocks, panel_blocks;

  template <class V>
  static Share of(int threads, std::int64_t groups, std::int64_t rows, std::int64_t panels) {
    if (rows <= V::kTileRows) return {groups, rows, panels, 1, (panels + kTaskPanels - 1) / kTaskPanels};
    const std::int64_t row_blocks = (rows + kTaskRows - 1) / kTaskRows;
    const std::int64_t most_panels = std::max<std::int64_t>(1, kTaskFloats / (kTaskRows * kPanel<V>));
    const std::int64_t wanted_blocks = (4 * threads + groups * row_blocks - 1) / (groups * row_blocks);
    const std::int64_t panel_blocks = std::max((panels + most_panels - 1) / most_panels, wanted_blocks);
    return {groups, rows, panels, row_blocks, std::min(panels, panel_blocks)};
  }
  std::int64_t tasks() const { return groups * row_blocks * panel_blocks; }
  std::int64_t most_rows() const { return (rows + row_blocks - 1) / row_blocks; }
  std::int64_t most_panels() const { return (panels + panel_blocks - 1) / panel_blocks; }
  /// Row blocks come first: those of one block of panels find its weights in a cache.
  Task task(std::int64_t item) const {
    const std::int64_t row_block = item % row_blocks, block = item / row_blocks % panel_blocks;
    const std::int64_t first_row = rows * row_block / row_blocks;
    return {item / row_blocks / panel_blocks, first_row, rows * (row_block + 1) / row_blocks - first_row,
            panels * block / panel_blocks, panels * (block + 1) / panel_blocks};
  }
};

/// scratch: a widened stretch of a panel, then the sums of each panel.
template <class V, class W, class Out>
void many_rows_task(const W& weight, const WideInput& input, const Share::Task& task, float* scratch, View<Out, 2> y) {
  const std::int64_t rows = task.rows;
  float* const wide = scratch;
  float* const sums = scratch + kStretch * kPanel<V>;
  for (std::int64_t s = 0; s < input.stretches(); ++s) {
    const std::int64_t length = input.length(s);
    const LeftRows left{input.row(s, task.first_row), kStretch, 1};
    for (std::int64_t panel = task.first_panel; panel < task.last_panel; ++panel) {
      weight.widen(panel, s * kStretch, length, wide);
      const FloatPanels<V> right{wide, kPanel<V>, 0};
      const Sums out{sums + (panel - task.first_panel) * rows * kPanel<V>, kPanel<V>, 0};
      if (s == 0) {
        multiply_panel<V, Into::replace>(left, right, rows, length, nullptr, out);
      } else {
        multiply_panel<V, Into::add>(left, right, rows, length, nullptr, out);
      }
    }
  }
  for (std::int64_t panel = task.first_panel; panel < task.last_panel; ++panel) {
    store_panel<V>({sums + (panel - task.first_panel) * rows * kPanel<V>, kPanel<V>, 0}, rows, panel, task.first_row,
                   y);
  }
}

template <class V, class W, class Out>
void multiply_part(Context& context, const Products<Out>& products) {
  const Arena::Scope scope(context.arena());
  const WeightFormat& format = products.format();
  const PanelLayout<V> layout(products.weights[0]);
  const std::int64_t rows = products.rows(), wide_floats = WideInput::floats(rows, layout.depth);
  float* const wide = context.arena().take<float>(products.groups() * wide_floats);
  const auto input = [&](std::int64_t group) { return WideInput{wide + group * wide_floats, rows, layout.depth}; };

  const Share share = Share::of<V>(context.threads(), products.groups(), rows, layout.panels);
  const std::int64_t scratch = std::max(layout.depth, (kStretch + share.most_rows() * share.most_panels()) * kPanel<V>);
  context.reserve_thread_scratch(scratch * static_cast<std::int64_t>(sizeof(float)));
  parallel_for(context, products.groups() * rows, (format.is_fp8() ? 2 : 1) * format.in,
               [&](std::int64_t item, int thread) {
                 const std::int64_t group = item / rows, row = item % rows;
                 widen_input_row<V>(format, &products.x(row, group, 0), input(group), row,
                                    context.thread_scratch<float>(thread));
               });
  parallel_for(context, share.tasks(), share.most_rows() * share.most_panels() * kPanel<V> * layout.depth / 8,
               [&](std::int64_t item, int thread) {
                 const Share::Task task = share.task(item);
                 const W weight(products.weights[static_cast<std::size_t>(task.group)]);
                 const View<Out, 2> y = products.y_of(task.group);
                 float* const floats = context.thread_scratch<float>(thread);
                 if (rows <= V::kTileRows) {
                   few_rows_task<V>(weight, input(task.group), task.first_panel, task.last_panel, floats, y);
                 } else {
                   many_rows_task<V>(weight, input(task.group), task, floats, y);
                 }
               });
}

template <class V, class Out>
void multiply(Context& context, const Products<Out>& products) {
  if (products.is_empty()) return;
  with_weight<V>(products.weights[0], [&]<class W>(const W&) {
    products.for_parts([&](const Products<Out>& part) { multiply_part<V, W>(context, part); });
  });
}

/// One product as a group of its own.
template <class Out>
Products<Out> single(View<const bf16, 2> x, const Weight& weight, View<Out, 2> y) {
  return {{x.data, {x.shape[0], 1, x.shape[1]}, {x.strides[0], 0, x.strides[1]}},
          {&weight, 1},
          {y.data, {y.shape[0], 1, y.shape[1]}, {y.strides[0], 0, y.strides[1]}}};
}

template <class V, class Out>
void multiply_one(Context& context, View<const bf16, 2> x, const Weight& weight, View<Out, 2> y) {
  multiply<V>(context, single(x, weight, y));
}

template <class V>
void multiply_groups(Context& context, View<const bf16, 3> x, std::span<const Weight> weights, View<bf16, 3> y) {
  multiply<V, bf16>(context, {x, weights, y});
}

}  // namespace skim::simd

// attend: the window, and rows gathered from a long context.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/operations.hpp"
#include "bench/random.hpp"
#include "bench/shapes.hpp"

namespace skim::bench {
namespace {

class AttendSubject final : public Subject {
 public:
  AttendSubject(const KernelSet& set, Context& context, const Shapes& shapes, std::int64_t queries)
      : kernels_(set.kernels()), context_(context), random_(4), rows_(random_, shapes.row, shapes.context) {
    shape_ = {.heads = shapes.heads,
              .key_width = static_cast<int>(shapes.key_width),
              .value_width = static_cast<int>(shapes.value_width),
              .scale = 1 / std::sqrt(static_cast<float>(shapes.key_width)),
              .sink = nullptr,
              .window_layout = shapes.window_row,
              .selected_layout = shapes.row,
              .rounding = shapes.rounding};
    if (shapes.window > 0) {
      sinks_ = random_floats(random_, shapes.heads);
      shape_.sink = sinks_.data();
    }
    const std::int64_t window_rows = shapes.window + queries;
    window_.resize(static_cast<std::size_t>(window_rows * shapes.window_row.bytes()));
    random_rows(random_, shapes.window_row, window_.data(), shapes.window > 0 ? window_rows : 0);
    query_values_ = random_values(random_, queries * shapes.heads * shapes.key_width);
    out_.resize(static_cast<std::size_t>(queries * shapes.heads * shapes.value_width));
    // Other rows for every call, so that they come from memory.
    const std::int64_t calls = copies_beyond_cache(static_cast<double>(queries * shapes.topk * shapes.row.bytes()));
    for (std::int64_t i = 0; i < calls; ++i) add_call(shapes, queries, window_rows);
  }

  void run() override {
    kernels_.attend(context_, shape_, calls_[next_]);
    next_ = (next_ + 1) % calls_.size();
  }

 private:
  void add_call(const Shapes& shapes, std::int64_t queries, std::int64_t window_rows) {
    std::vector<AttendQuery>& call = calls_.emplace_back();
    for (std::int64_t i = 0; i < queries; ++i) {
      selected_.push_back(random_positions(random_, shapes.context, shapes.topk));
      AttendQuery query{.query = query_values_.data() + i * shapes.heads * shapes.key_width,
                        .window = {},
                        .selected_rows = rows_.rows(),
                        .selected = selected_.back(),
                        .out = out_.data() + i * shapes.heads * shapes.value_width};
      if (shapes.window > 0) {
        query.window = {window_.data(), window_rows, nullptr, window_rows, shapes.window_row.bytes()};
        query.window_first = i;
        query.window_count = shapes.window;
      }
      call.push_back(query);
    }
  }

  const Kernels& kernels_;
  Context& context_;
  RandomWords random_;
  RandomPages rows_;
  AttendShape shape_;
  std::vector<float> sinks_;
  std::vector<std::byte> window_;
  std::vector<bf16> query_values_, out_;
  std::vector<std::vector<std::int32_t>> selected_;  // moving a vector leaves its elements where they are
  std::vector<std::vector<AttendQuery>> calls_;
  std::size_t next_ = 0;
};

/// Products: queries * heads * rows * (key_width + value_width). Bytes: selected rows once per query, rows of the
/// common window once, queries and outputs in bf16.
Work attend_work(const Shapes& shapes, std::int64_t queries) {
  const auto n = static_cast<double>(queries);
  const double window = shapes.window > 0 ? shapes.window + n - 1 : 0;
  return {.products = n * (shapes.window + shapes.topk) * shapes.attend_operations(),
          .integer_products = 0,
          .bytes = n * shapes.topk * static_cast<double>(shapes.row.bytes()) +
                   window * static_cast<double>(shapes.window_row.bytes()) +
                   2 * n * shapes.heads * (shapes.key_width + shapes.value_width)};
}

}  // namespace

std::vector<Operation> attend_operations(const Config& config) {
  const Shapes shapes = shapes_of(config);
  std::vector<Operation> list;
  for (const std::int64_t queries : {1, 16, 64}) {
    const std::string text = fmt::format("{} x {} heads, {} + {} rows of {}/{}", queries, shapes.heads, shapes.window,
                                         shapes.topk, shapes.key_width, shapes.value_width);
    list.push_back({"attend", text, attend_work(shapes, queries), [shapes, queries](const KernelSet& set, Context& c) {
                      return std::make_unique<AttendSubject>(set, c, shapes, queries);
                    }});
  }
  return list;
}

}  // namespace skim::bench

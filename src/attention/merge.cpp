#include "skim/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "base/out_of_memory.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

template <std::size_t kRank>
bool same(const std::array<std::int64_t, kRank>& shape, std::array<std::int64_t, kRank> expected) {
  return shape == expected;
}

void check_sink(std::string_view name, std::span<const float> sink, std::int64_t heads) {
  if (!sink.empty() && sink.data() == nullptr) {
    throw Error(ErrorCode::invalid_argument, fmt::format("merge: the sinks of {} have no data (null)", name));
  }
  if (sink.empty() || static_cast<std::int64_t>(sink.size()) == heads) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("merge: {} has {} sinks, expected one per head, {}", name, sink.size(), heads));
}

template <class T, int kRank>
bool is_empty(const View<T, kRank>& view) {
  return std::any_of(view.shape.begin(), view.shape.end(), [](std::int64_t extent) { return extent <= 0; });
}

template <class T, int kRank>
void check_data(std::string_view name, const View<T, kRank>& view) {
  if (view.data != nullptr || is_empty(view)) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("merge: {} has no data (null)", name));
}

void check_arguments(std::span<const AttentionPart> parts, std::span<const float> sink, const View<float, 3>& out,
                     const View<float, 2>& log_sum) {
  const auto [tokens, heads, width] = out.shape;
  if (!same(log_sum.shape, {tokens, heads})) {
    throw Error(ErrorCode::invalid_argument, fmt::format("merge: log_sum has shape [{}, {}], expected [{}, {}]",
                                                         log_sum.shape[0], log_sum.shape[1], tokens, heads));
  }
  check_data("out", out);
  check_data("log_sum", log_sum);
  check_sink("the result", sink, heads);
  if (!parts.empty() && parts.data() == nullptr) {
    throw Error(ErrorCode::invalid_argument, fmt::format("merge: the list of {} parts is null", parts.size()));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [part, sums, part_sink] = parts[i];
    if (!same(part.shape, {tokens, heads, width}) || !same(sums.shape, {tokens, heads})) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("merge: part {} has shapes [{}, {}, {}] and [{}, {}], expected [{}, {}, {}] and [{}, {}]",
                              i, part.shape[0], part.shape[1], part.shape[2], sums.shape[0], sums.shape[1], tokens,
                              heads, width, tokens, heads));
    }
    check_data(fmt::format("out of part {}", i), part);
    check_data(fmt::format("log_sum of part {}", i), sums);
    check_sink(fmt::format("part {}", i), part_sink, heads);
  }
}

/// log(exp(a) + exp(b))
float add_logarithms(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const float larger = std::max(a, b), smaller = std::min(a, b);
  return smaller == kNothing ? larger : larger + std::log1p(std::exp(smaller - larger));
}

/// Memory that a view or list touches, and what lies between its rows.
struct Extent {
  const std::byte *first, *last;

  bool overlaps(const Extent& other) const {
    const std::less<const std::byte*> before;
    return before(first, other.last) && before(other.first, last);
  }
};

template <class T, int kRank>
Extent extent(const View<T, kRank>& view) {
  if (is_empty(view)) return {nullptr, nullptr};
  std::int64_t lowest = 0, highest = 0;
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    const std::int64_t reach = (view.shape[i] - 1) * view.strides[i];
    (reach < 0 ? lowest : highest) += reach;
  }
  return {reinterpret_cast<const std::byte*>(view.data + lowest),
          reinterpret_cast<const std::byte*>(view.data + highest + 1)};
}
Extent extent(std::span<const float> list) {
  const std::span<const std::byte> bytes = std::as_bytes(list);
  return {bytes.data(), bytes.data() + bytes.size()};
}

/// Whether writing `result` element by element would change elements of `operand` that are still to be read.
template <class A, class B, int kRankA, int kRankB>
bool disturbs(const View<A, kRankA>& result, const View<B, kRankB>& operand) {
  if constexpr (kRankA == kRankB) {
    if (result.data == operand.data && result.strides == operand.strides) return false;
  }
  return extent(result).overlaps(extent(operand));
}

bool in_the_way(std::span<const AttentionPart> parts, std::span<const float> sink, const View<float, 3>& out,
                const View<float, 2>& log_sum) {
  const auto touches = [&](std::span<const float> list) {
    return extent(list).overlaps(extent(out)) || extent(list).overlaps(extent(log_sum));
  };
  return touches(sink) || std::any_of(parts.begin(), parts.end(), [&](const AttentionPart& part) {
           return disturbs(out, part.out) || disturbs(out, part.log_sum) || disturbs(log_sum, part.out) ||
                  disturbs(log_sum, part.log_sum) || touches(part.sink);
         });
}

/// Merges one token and head at a time. All that a result depends on is read before it is written.
class Merge {
 public:
  Merge(std::span<const AttentionPart> parts, std::span<const float> sink)
      : parts_(parts), sink_(sink), sums_(parts.size()), weights_(parts.size()) {}

  void head(std::int64_t token, std::int64_t head, const View<float, 3>& out, const View<float, 2>& log_sum) {
    const float rows = weigh(token, head);
    for (std::int64_t c = 0; c < out.shape[2]; ++c) {
      float sum = 0;
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        if (sums_[i] != kNothing) sum += weights_[i] * parts_[i].out(token, head, c);
      }
      out(token, head, c) = sum;
    }
    log_sum(token, head) = rows;
  }

 private:
  /// Finds how much each part counts; returns the logarithm of the sum over all rows.
  float weigh(std::int64_t token, std::int64_t head) {
    const auto h = static_cast<std::size_t>(head);
    const float sink = sink_.empty() ? kNothing : sink_[h];
    float rows = kNothing, largest = sink;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      sums_[i] = parts_[i].log_sum(token, head);
      // Logarithm of what the part's denominator was.
      weights_[i] = parts_[i].sink.empty() ? sums_[i] : add_logarithms(sums_[i], parts_[i].sink[h]);
      rows = add_logarithms(rows, sums_[i]);
      largest = std::max(largest, weights_[i]);
    }
    if (rows == kNothing) return rows;
    float denominator = std::exp(sink - largest);
    for (const float mass : weights_) denominator += std::exp(mass - largest);
    for (float& weight : weights_) weight = std::exp(weight - largest) / denominator;
    return rows;
  }

  std::span<const AttentionPart> parts_;
  std::span<const float> sink_;
  std::vector<float> sums_, weights_;  // [parts]
};

void merge_all(std::span<const AttentionPart> parts, std::span<const float> sink, const View<float, 3>& out,
               const View<float, 2>& log_sum) {
  Merge merge(parts, sink);
  for (std::int64_t token = 0; token < out.shape[0]; ++token) {
    for (std::int64_t head = 0; head < out.shape[1]; ++head) merge.head(token, head, out, log_sum);
  }
}

void copy(const View<const float, 3>& from, const View<float, 3>& to) {
  for (std::int64_t i = 0; i < to.shape[0]; ++i) {
    for (std::int64_t j = 0; j < to.shape[1]; ++j) {
      for (std::int64_t k = 0; k < to.shape[2]; ++k) to(i, j, k) = from(i, j, k);
    }
  }
}

}  // namespace

void merge_attention(std::span<const AttentionPart> parts, std::span<const float> sink, View<float, 3> out,
                     View<float, 2> log_sum) {
  check_arguments(parts, sink, out, log_sum);
  or_out_of_memory("merge", [&] {
    if (!in_the_way(parts, sink, out, log_sum)) return merge_all(parts, sink, out, log_sum);
    const auto [tokens, heads, width] = out.shape;
    std::vector<float> values(static_cast<std::size_t>(tokens * heads * width));
    std::vector<float> sums(static_cast<std::size_t>(tokens * heads));
    const View<float, 3> wide_out(values.data(), out.shape), wide_sums(sums.data(), {tokens, heads, 1});
    merge_all(parts, sink, wide_out, View<float, 2>(sums.data(), log_sum.shape));
    copy(wide_out, out);
    copy(wide_sums, {log_sum.data, wide_sums.shape, {log_sum.strides[0], log_sum.strides[1], 1}});
  });
}

}  // namespace skim

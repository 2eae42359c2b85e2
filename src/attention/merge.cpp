#include "skim/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "skim/error.hpp"

namespace skim {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

template <std::size_t kRank>
bool same(const std::array<std::int64_t, kRank>& shape, std::array<std::int64_t, kRank> expected) {
  return shape == expected;
}

void check_sink(std::string_view name, std::span<const float> sink, std::int64_t heads) {
  if (sink.empty() || static_cast<std::int64_t>(sink.size()) == heads) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("merge: {} has {} sinks, expected one per head, {}", name, sink.size(), heads));
}

void check_shapes(std::span<const AttentionPart> parts, std::span<const float> sink, const View<float, 3>& out,
                  const View<float, 2>& log_sum) {
  const auto [tokens, heads, width] = out.shape;
  if (!same(log_sum.shape, {tokens, heads})) {
    throw Error(ErrorCode::invalid_argument, fmt::format("merge: log_sum has shape [{}, {}], expected [{}, {}]",
                                                         log_sum.shape[0], log_sum.shape[1], tokens, heads));
  }
  check_sink("the result", sink, heads);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [part, sums, part_sink] = parts[i];
    if (!same(part.shape, {tokens, heads, width}) || !same(sums.shape, {tokens, heads})) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("merge: part {} has shapes [{}, {}, {}] and [{}, {}], expected [{}, {}, {}] and [{}, {}]",
                              i, part.shape[0], part.shape[1], part.shape[2], sums.shape[0], sums.shape[1], tokens,
                              heads, width, tokens, heads));
    }
    check_sink(fmt::format("part {}", i), part_sink, heads);
  }
}

/// log(exp(a) + exp(b))
float add_logarithms(float a, float b) {
  const float larger = std::max(a, b), smaller = std::min(a, b);
  return smaller == kNothing ? larger : larger + std::log1p(std::exp(smaller - larger));
}

/// One token and head.
void merge_head(std::span<const AttentionPart> parts, std::int64_t token, std::int64_t head, float sink,
                const View<float, 3>& out, const View<float, 2>& log_sum) {
  float rows = kNothing, largest = sink;
  std::vector<float> mass(parts.size());  // logarithm of what each part's denominator was
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const float sum = parts[i].log_sum(token, head);
    mass[i] = parts[i].sink.empty() ? sum : add_logarithms(sum, parts[i].sink[static_cast<std::size_t>(head)]);
    rows = add_logarithms(rows, sum);
    largest = std::max(largest, mass[i]);
  }
  log_sum(token, head) = rows;
  for (std::int64_t c = 0; c < out.shape[2]; ++c) out(token, head, c) = 0;
  if (rows == kNothing) return;
  float denominator = std::exp(sink - largest);
  for (const float part : mass) denominator += std::exp(part - largest);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].log_sum(token, head) == kNothing) continue;
    const float weight = std::exp(mass[i] - largest) / denominator;
    for (std::int64_t c = 0; c < out.shape[2]; ++c) out(token, head, c) += weight * parts[i].out(token, head, c);
  }
}

}  // namespace

void merge_attention(std::span<const AttentionPart> parts, std::span<const float> sink, View<float, 3> out,
                     View<float, 2> log_sum) {
  check_shapes(parts, sink, out, log_sum);
  for (std::int64_t token = 0; token < out.shape[0]; ++token) {
    for (std::int64_t head = 0; head < out.shape[1]; ++head) {
      merge_head(parts, token, head, sink.empty() ? kNothing : sink[static_cast<std::size_t>(head)], out, log_sum);
    }
  }
}

}  // namespace skim

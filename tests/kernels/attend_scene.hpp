// Queries with the rows that they may read, and what every test of `attend` does with them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "every_set.hpp"
#include "random_tensors.hpp"

namespace skim::test {

struct Plan {
  const char* name;
  int heads, width, value_width;
  std::int64_t window_first, window_count, staged_first;
  int selected;
  bool sink;
  float query_size = 1;
};
inline constexpr std::int64_t kNone = 1 << 20;

/// One query and the rows that it may read; all other rows hold NaN.
struct Scene {
  static constexpr float kLatentScale = 0.03f;  // no function of a row's width
  static constexpr std::int64_t kRingRows = 18, kPageRows = 7, kPages = 60;
  AttendShape shape;
  AttendQuery query;
  std::vector<float> sink;
  std::vector<bf16> queries;
  std::vector<std::byte> ring, staged;
  std::vector<std::vector<std::byte>> pages;
  std::vector<const std::byte*> page_pointers;
  std::vector<std::int32_t> selected;

  /// Of V4.1.
  Scene(Random& random, const Plan& plan)
      : Scene(random, plan, {RowFormat::fp4_e4m3, plan.width}, 1 / std::sqrt(static_cast<float>(plan.width)),
              AttendRounding::exponentials) {}
  /// Of V3.2: latents whose tail, which only meets the query, is not quantized.
  Scene(Random& random, const Plan& plan, Fp8Scale kind)
      : Scene(random, plan, {RowFormat::fp8_f32, plan.width, plan.width - plan.value_width, kind}, kLatentScale,
              AttendRounding::logits) {}
  Scene(Random& random, const Plan& plan, RowLayout selected_layout, float scale, AttendRounding rounding) {
    const RowLayout window_layout{RowFormat::fp8_e8m0, plan.width};
    if (plan.sink) sink = random.floats(plan.heads);
    shape = {plan.heads,    plan.width,      plan.value_width, scale, plan.sink ? sink.data() : nullptr,
             window_layout, selected_layout, rounding};
    queries = random.bf16s(static_cast<std::int64_t>(plan.heads) * plan.width, plan.query_size);
    const std::byte poison{0xFF};  // NaN as a code, as a scale of any kind and in a tail
    ring.assign(static_cast<std::size_t>(kRingRows * window_layout.bytes()), poison);
    staged.assign(static_cast<std::size_t>(kRingRows * window_layout.bytes()), poison);
    for (std::int64_t position = plan.window_first; position < plan.window_first + plan.window_count; ++position) {
      random.packed_row(window_layout, position >= plan.staged_first
                                           ? staged.data() + (position - plan.staged_first) * window_layout.bytes()
                                           : ring.data() + position % kRingRows * window_layout.bytes());
    }
    pages.assign(kPages, std::vector<std::byte>(static_cast<std::size_t>(kPageRows * selected_layout.bytes()), poison));
    for (const auto& page : pages) page_pointers.push_back(page.data());
    for (std::int32_t position = 1 + static_cast<std::int32_t>(random.below(3)), i = 0; i < plan.selected; ++i) {
      selected.push_back(position);
      random.packed_row(selected_layout, pages[static_cast<std::size_t>(position / kPageRows)].data() +
                                             position % kPageRows * selected_layout.bytes());
      position += 1 + static_cast<std::int32_t>(random.below(plan.selected < 130 ? 3 : 1));
    }
    query = {queries.data(),
             {ring.data(), kRingRows, staged.data(), plan.staged_first, window_layout.bytes()},
             plan.window_first,
             plan.window_count,
             {page_pointers.data(), kPageRows, selected_layout.bytes()},
             selected,
             nullptr};
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  std::int64_t outputs() const { return static_cast<std::int64_t>(shape.heads) * shape.value_width; }
};

inline std::vector<double> as_doubles(const std::vector<bf16>& values) {
  std::vector<double> wide;
  for (const bf16 value : values) wide.push_back(to_float(value));
  return wide;
}

/// Result of one query; a guard behind it must stay.
inline std::vector<bf16> run(Context& context, const Scene& scene, const Kernels& kernels) {
  std::vector<bf16> out(static_cast<std::size_t>(scene.outputs()) + 64, bf16{0x7FC1});
  AttendQuery query = scene.query;
  query.out = out.data();
  kernels.attend(context, scene.shape, {&query, 1});
  for (int i = 0; i < 64; ++i, out.pop_back()) EXPECT_EQ(out.back(), bf16{0x7FC1});
  return out;
}

/// scenes[2] gives the same bits alone and among the others, for any number of threads.
inline void expect_bits_of_the_query_alone(const Kernels& kernels, const std::vector<std::unique_ptr<Scene>>& scenes) {
  const std::int64_t outputs = scenes[2]->outputs();
  Context one(1), two(2), seven(7);
  const std::vector<bf16> alone = run(one, *scenes[2], kernels);
  for (Context* context : {&two, &seven}) {
    EXPECT_TRUE(same_bits(alone.data(), run(*context, *scenes[2], kernels).data(), outputs));
  }
  for (Context* context : {&one, &two}) {
    std::vector<bf16> out(scenes.size() * static_cast<std::size_t>(outputs));
    std::vector<AttendQuery> queries;
    for (std::size_t i = 0; i < scenes.size(); ++i) {
      queries.push_back(scenes[i]->query);
      queries.back().out = out.data() + static_cast<std::int64_t>(i) * outputs;
    }
    kernels.attend(*context, scenes[0]->shape, queries);
    EXPECT_TRUE(same_bits(alone.data(), out.data() + 2 * outputs, outputs));
  }
}

}  // namespace skim::test

// Claims: attention of every kernel set follows the definition in kernels.hpp (blocks of 64, running maximum from
// -1e30, probabilities rounded for the values only, sink once) over window ring, staged and selected rows, and agrees
// with the reference set; it reads no other row, writes nothing past its heads, and its bits depend on the query alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "attend_scene.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::test {
namespace {

constexpr Plan kPlans[] = {
    {"one row", 1, 32, 32, 0, 1, kNone, 0, true},
    {"one selected row, no sink", 1, 64, 64, 0, 0, kNone, 1, false},
    {"window only", 6, 64, 64, 0, 17, kNone, 0, true},
    {"selected only", 20, 96, 96, 0, 0, kNone, 70, true},
    {"ring wraps", 6, 64, 64, 21, 16, kNone, 5, true},
    {"ring wraps, staged rows", 20, 64, 64, 21, 16, 30, 33, false},
    {"all staged", 1, 64, 64, 5, 9, 5, 64, true},
    {"exactly two blocks", 64, 64, 64, 3, 16, 10, 112, true},
    {"one row into the third block", 64, 128, 128, 3, 16, 10, 113, true},
    {"values narrower than keys", 6, 96, 35, 3, 16, 10, 80, true},
    {"maximum moves", 20, 512, 512, 3, 16, 10, 240, true, 4},
    {"many heads", 37, 64, 64, 0, 10, kNone, 20, false},
};

struct Expected {
  std::vector<double> values, allowed;
};

/// The definition in double precision. A float32 logit near a rounding boundary may give the neighbouring bf16
/// probability, so each row may weigh 2^-7 of itself more or less; then the result is rounded.
Expected attend_in_double(const Scene& scene) {
  const AttendShape& shape = scene.shape;
  const AttendQuery& query = scene.query;
  const std::size_t total = static_cast<std::size_t>(query.window_count) + query.selected.size();
  const auto width = static_cast<std::size_t>(shape.key_width),
             value_width = static_cast<std::size_t>(shape.value_width);
  std::vector<float> rows(total * width);
  for (std::size_t i = 0; i < total; ++i) {
    const std::int64_t place = static_cast<std::int64_t>(i) - query.window_count;
    if (place < 0)
      unpack_row(shape.window_layout, query.window.row(query.window_first + static_cast<std::int64_t>(i)),
                 &rows[i * width]);
    else
      unpack_row(shape.selected_layout, query.selected_rows.row(query.selected[static_cast<std::size_t>(place)]),
                 &rows[i * width]);
  }
  Expected expected;
  for (std::size_t h = 0; h < static_cast<std::size_t>(shape.heads); ++h) {
    double maximum = -1e30, denominator = 0;
    std::vector<double> sum(value_width, 0), size(value_width, 0);
    for (std::size_t first = 0; first < total; first += kAttendBlock) {
      std::vector<double> logits;
      for (std::size_t i = first; i < std::min(first + kAttendBlock, total); ++i) {
        double dot = 0;
        for (std::size_t c = 0; c < width; ++c)
          dot += static_cast<double>(to_float(query.query[h * width + c])) * rows[i * width + c];
        logits.push_back(dot * shape.scale);
      }
      const double before = maximum;
      for (const double logit : logits) maximum = std::max(maximum, logit);
      denominator *= std::exp(before - maximum);
      for (std::size_t c = 0; c < value_width; ++c) {
        sum[c] *= std::exp(before - maximum);
        size[c] *= std::exp(before - maximum);
      }
      for (std::size_t i = 0; i < logits.size(); ++i) {
        const double probability = std::exp(logits[i] - maximum);
        denominator += probability;
        for (std::size_t c = 0; c < value_width; ++c) {
          const double term =
              static_cast<double>(round_bf16(static_cast<float>(probability))) * rows[(first + i) * width + c];
          sum[c] += term;
          size[c] += std::abs(term);
        }
      }
    }
    if (shape.sink != nullptr) denominator += std::exp(shape.sink[h] - maximum);
    for (std::size_t c = 0; c < value_width; ++c) {
      expected.values.push_back(total == 0 ? 0 : sum[c] / denominator);
      expected.allowed.push_back(
          total == 0 ? 0 : kBf16Epsilon * std::abs(sum[c] / denominator) + 0x1p-7 * size[c] / denominator);
    }
  }
  return expected;
}

class Attend : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Attend, every_set(), set_name);

TEST_P(Attend, FollowsDefinition) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const Plan& plan : kPlans) {
    SCOPED_TRACE(plan.name);
    const Scene scene(random, plan);
    Context context(2);
    const std::vector<bf16> got = run(context, scene, kernels());
    const Expected want = attend_in_double(scene);
    EXPECT_TRUE(close(got.data(), want.values, want.allowed));
    EXPECT_LE(relative_error(got.data(), want.values), kBf16Epsilon);
    // Two float32 implementations mostly round to the same bf16.
    const std::vector<bf16> reference = run(context, scene, reference::kernels());
    EXPECT_LE(relative_error(got.data(), as_doubles(reference)), kBf16Epsilon / 2);
  }
}

TEST_P(Attend, BitsDependOnTheQueryAlone) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const Plan& plan : kPlans) {
    SCOPED_TRACE(plan.name);
    std::vector<std::unique_ptr<Scene>> scenes;
    for (int i = 0; i < 5; ++i) {
      Plan other = plan;
      other.selected = i == 2 ? plan.selected : plan.selected * i / 4;
      scenes.push_back(std::make_unique<Scene>(random, other));
      scenes.back()->shape.sink = scenes.front()->shape.sink;
    }
    expect_bits_of_the_query_alone(kernels(), scenes);
  }
}

TEST_P(Attend, NanStaysInItsHead) {
  Random random;
  SCOPED_TRACE(random.trace());
  Scene scene(random, {"", 9, 64, 64, 0, 16, kNone, 100, true});
  scene.queries[3 * 64 + 7] = bf16{0x7FC0};
  Context context(1);
  const std::vector<bf16> out = run(context, scene, kernels());
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(std::isnan(to_float(out[i])), i / 64 == 3) << "head " << i / 64;
}

TEST_P(Attend, DenseRowsAreAListOfAll) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const int rows : {1, 64, 130}) {
    Scene scene(random, {"", 9, 96, 96, 3, 16, 10, rows, true}, {RowFormat::fp8_e8m0_64, 96, 32}, 0.1f,
                AttendRounding::exponentials);
    for (std::int32_t i = 0; i < rows; ++i) {
      scene.selected[static_cast<std::size_t>(i)] = i;
      random.packed_row(scene.shape.selected_layout, const_cast<std::byte*>(scene.query.selected_rows.row(i)));
    }
    Context context(2);
    const std::vector<bf16> listed = run(context, scene, kernels());
    scene.query.selected = {};
    scene.query.dense_rows = rows;
    EXPECT_TRUE(same_bits(listed.data(), run(context, scene, kernels()).data(), scene.outputs())) << rows;
  }
}

class Fault45 : public Attend {};
INSTANTIATE_TEST_SUITE_P(, Fault45, every_set(), set_name);

TEST_P(Fault45, NoRowsGiveZeros) {
  Random random;
  for (const bool sink : {false, true}) {
    const Scene scene(random, {"", 6, 64, 64, 0, 0, kNone, 0, sink});
    Context context(1);
    for (const bf16 value : run(context, scene, kernels())) EXPECT_EQ(value.bits, 0);
  }
}

class Fault58 : public Attend {};
INSTANTIATE_TEST_SUITE_P(, Fault58, every_set(), set_name);

TEST_P(Fault58, SinkCountsOnce) {
  Random random;
  Scene scene(random, {"", 6, 32, 32, 0, 3, kNone, 5, true});
  std::fill(scene.queries.begin(), scene.queries.end(), bf16{0});
  std::fill(scene.sink.begin(), scene.sink.end(), 0.0f);
  const std::vector<bf16> sixes(32, to_bf16(6));  // exact in both formats, where 1 is not
  for (std::int64_t i = 0; i < 3; ++i)
    pack_row(scene.shape.window_layout, sixes.data(), scene.ring.data() + i * scene.query.window.row_bytes);
  for (const std::int32_t position : scene.selected) {
    pack_row(scene.shape.selected_layout, sixes.data(),
             const_cast<std::byte*>(scene.query.selected_rows.row(position)));
  }
  Context context(1);
  for (const bf16 value : run(context, scene, kernels())) EXPECT_EQ(value, to_bf16(6 * 8.0f / 9.0f));
}

class Fault60 : public Attend {};
INSTANTIATE_TEST_SUITE_P(, Fault60, every_set(), set_name);

TEST_P(Fault60, AnyNumberOfHeads) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const int heads : {1, 2, 3, 5, 7, 8, 16, 20, 32, 64}) {
    SCOPED_TRACE(heads);
    const Scene scene(random, {"", heads, 64, 64, 0, 16, kNone, 60, true});
    Context context(2);
    const std::vector<bf16> got = run(context, scene, kernels());
    const Expected want = attend_in_double(scene);
    EXPECT_TRUE(close(got.data(), want.values, want.allowed));
  }
}

TEST_P(Fault60, FewHeadsOfLatentsAreTheFirstOfMany) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const int selected : {1, 65}) {
    Scene scene(random, {"", 128, 160, 128, 0, 0, kNone, selected, false}, Fp8Scale::pow2);
    Context context(2);
    const std::vector<bf16> many = run(context, scene, kernels());
    for (const int heads : {1, 2, 3, 5, 7, 8, 9, 16, 20, 33, 64}) {
      SCOPED_TRACE(heads);
      scene.shape.heads = heads;
      const std::vector<bf16> few = run(context, scene, kernels());
      EXPECT_LE(relative_error(few.data(), as_doubles({many.begin(), many.begin() + scene.outputs()})), kBf16Epsilon);
    }
  }
}

}  // namespace
}  // namespace skim::test

// Claims: attention over V3.2 latents is the softmax of its definition in every kernel set: close to double precision
// and to the reference set, which rounds where the published code does; the scale is the caller's; rows that are not
// selected are never read, and bits depend on the query alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "attend_scene.hpp"
#include "kernels/reference/reference.hpp"

namespace skim::test {
namespace {

constexpr double kSetTolerance = 1.2e-2;  // of a set that does not round like the reference

constexpr Plan kPlans[] = {
    {"no row", 3, 160, 128, 0, 0, kNone, 0, false},
    {"one row", 1, 160, 128, 0, 0, kNone, 1, false},
    {"one short of a block", 8, 576, 512, 0, 0, kNone, 63, false},
    {"a block", 16, 160, 128, 0, 0, kNone, 64, false},
    {"one row into the second block", 20, 576, 512, 0, 0, kNone, 65, false},
    {"many rows", 3, 576, 512, 0, 0, kNone, 200, false},
    {"released heads", 128, 576, 512, 0, 0, kNone, 5, false},
    {"narrow tail", 8, 130, 128, 0, 0, kNone, 65, false},
    {"no tail", 3, 128, 128, 0, 0, kNone, 64, false},
    {"short last group", 5, 226, 160, 0, 0, kNone, 70, false},
    {"window rows first", 6, 160, 128, 21, 16, 30, 50, false},
};
constexpr Fp8Scale kScales[] = {Fp8Scale::float32, Fp8Scale::pow2};

struct Softmax {
  std::vector<double> values;
  std::vector<double> allowed;  ///< Of the unrounded values: what the roundings of AttendRounding::logits may do.
};

std::vector<std::vector<float>> listed_rows(const Scene& scene) {
  std::vector<std::vector<float>> rows;
  const AttendQuery& query = scene.query;
  for (std::int64_t p = query.window_first; p < query.window_first + query.window_count; ++p) {
    unpack_row(scene.shape.window_layout, query.window.row(p),
               rows.emplace_back(static_cast<std::size_t>(scene.shape.key_width)).data());
  }
  for (const std::int32_t position : query.selected) {
    unpack_row(scene.shape.selected_layout, query.selected_rows.row(position),
               rows.emplace_back(static_cast<std::size_t>(scene.shape.key_width)).data());
  }
  return rows;
}

/// One softmax in double precision; `rounded`: to bf16 after every step, as published.
Softmax softmax_in_double(const Scene& scene, bool rounded) {
  const AttendShape& shape = scene.shape;
  const auto keep = [rounded](double x) { return rounded ? round_bf16(static_cast<float>(x)) : x; };
  const std::vector<std::vector<float>> rows = listed_rows(scene);
  const auto width = static_cast<std::size_t>(shape.key_width), values = static_cast<std::size_t>(shape.value_width);
  Softmax softmax;
  for (std::size_t h = 0; h < static_cast<std::size_t>(shape.heads); ++h) {
    std::vector<double> logits;
    double largest = -1e30, denominator = 0, logit_error = 0;
    for (const std::vector<float>& row : rows) {
      double parts[2] = {0, 0};
      for (std::size_t c = 0; c < width; ++c)
        parts[c >= values] += static_cast<double>(to_float(scene.queries[h * width + c])) * row[c];
      const double sum = keep(keep(parts[0]) + keep(parts[1]));
      logits.push_back(keep(sum * shape.scale));
      largest = std::max(largest, logits.back());
      const double sizes = std::abs(parts[0]) + std::abs(parts[1]) + 2 * std::abs(sum);
      logit_error = std::max(logit_error, 1.02 * kBf16Epsilon * sizes * shape.scale);
    }
    for (double& logit : logits) denominator += logit = std::exp(logit - largest);
    for (std::size_t c = 0; c < values; ++c) {
      double sum = 0, size = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const double term = keep(logits[i] / denominator) * rows[i][c];
        sum += term;
        size += std::abs(term);
      }
      softmax.values.push_back(keep(sum));
      softmax.allowed.push_back(kBf16Epsilon * std::abs(sum) + (std::expm1(2 * logit_error) + 2 * kBf16Epsilon) * size);
    }
  }
  return softmax;
}

class AttendLatents : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, AttendLatents, every_set(), set_name);

TEST_P(AttendLatents, IsTheSoftmaxInDoublePrecision) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const Plan& plan : kPlans) {
    for (const Fp8Scale kind : kScales) {
      SCOPED_TRACE(plan.name);
      const Scene scene(random, plan, kind);
      Context context(2);
      const std::vector<bf16> got = run(context, scene, kernels());
      const Softmax want = softmax_in_double(scene, false);
      EXPECT_TRUE(close(got.data(), want.values, want.allowed));
      const std::vector<bf16> reference = run(context, scene, reference::kernels());
      EXPECT_LE(relative_error(got.data(), as_doubles(reference)), kSetTolerance);
    }
  }
}

TEST_P(AttendLatents, OneRowIsItsOwnAverage) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const Fp8Scale kind : kScales) {
    const Scene scene(random, {"", 5, 576, 512, 0, 0, kNone, 1, false}, kind);
    std::vector<bf16> row(576);
    unpack_row(scene.shape.selected_layout, scene.query.selected_rows.row(scene.selected[0]), row.data());
    Context context(1);
    const std::vector<bf16> got = run(context, scene, kernels());
    for (std::int64_t h = 0; h < 5; ++h) EXPECT_TRUE(same_bits(got.data() + h * 512, row.data(), 512)) << "head " << h;
  }
}

TEST_P(AttendLatents, BitsDependOnTheQueryAlone) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const Plan& plan : kPlans) {
    SCOPED_TRACE(plan.name);
    std::vector<std::unique_ptr<Scene>> scenes;
    for (int i = 0; i < 5; ++i) {
      Plan other = plan;
      other.selected = i == 2 ? plan.selected : plan.selected * i / 4;
      scenes.push_back(std::make_unique<Scene>(random, other, Fp8Scale::float32));
    }
    expect_bits_of_the_query_alone(kernels(), scenes);
  }
}

TEST_P(AttendLatents, NanStaysInItsHead) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const std::size_t column : {7u, 150u}) {
    Scene scene(random, {"", 9, 160, 128, 0, 0, kNone, 100, false}, Fp8Scale::float32);
    scene.queries[3 * 160 + column] = bf16{0x7FC0};
    Context context(1);
    const std::vector<bf16> out = run(context, scene, kernels());
    for (std::size_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(std::isnan(to_float(out[i])), i / 128 == 3) << "head " << i / 128;
  }
}

TEST(AttendReference, RoundsWhereThePublishedCodeDoes) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const Plan& plan : kPlans) {
    SCOPED_TRACE(plan.name);
    const Scene scene(random, plan, Fp8Scale::float32);
    Context context(2);
    const std::vector<bf16> got = run(context, scene, reference::kernels());
    const std::vector<double> want = softmax_in_double(scene, true).values;
    std::size_t exact = 0;
    for (std::size_t i = 0; i < want.size(); ++i) exact += to_float(got[i]) == want[i];
    EXPECT_GE(exact, want.size() * 9 / 10);
    EXPECT_LE(relative_error(got.data(), want), kBf16Epsilon / 4);
  }
}

class Fault26 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault26, every_set(), set_name);

TEST_P(Fault26, KernelScaleIsTheCallersWhateverTheWidth) {
  Random random;
  for (const auto& [width, value_width] : {std::pair{576, 512}, {160, 128}}) {
    Scene scene(random, {"", 3, width, value_width, 0, 0, kNone, 2, false}, Fp8Scale::pow2);
    std::vector<bf16> row(static_cast<std::size_t>(width), bf16{0});
    pack_row(scene.shape.selected_layout, row.data(),
             const_cast<std::byte*>(scene.query.selected_rows.row(scene.selected[0])));
    row[0] = to_bf16(1);
    pack_row(scene.shape.selected_layout, row.data(),
             const_cast<std::byte*>(scene.query.selected_rows.row(scene.selected[1])));
    std::fill(scene.queries.begin(), scene.queries.end(), bf16{0});
    for (std::size_t h = 0; h < 3; ++h) scene.queries[h * static_cast<std::size_t>(width)] = to_bf16(1);
    for (const float scale : {0.0f, 0.0625f, 1.1015625f, -2.0f, 20.0f}) {  // bf16 values, so that no logit is rounded
      SCOPED_TRACE(scale);
      scene.shape.scale = scale;
      std::vector<double> want(static_cast<std::size_t>(scene.outputs()), 0.0), allowed(want.size(), 0.0);
      for (std::size_t i = 0; i < want.size(); i += static_cast<std::size_t>(value_width)) {
        want[i] = 1 / (1 + std::exp(-scale));
        allowed[i] = 2.1 * kBf16Epsilon * want[i];
      }
      Context context(1);
      EXPECT_TRUE(close(run(context, scene, kernels()).data(), want, allowed));
    }
  }
}

class Fault54 : public EverySet {
 protected:
  /// Gives every row that is not selected these codes, scales and tail.
  static void fill_others(Scene& scene, std::uint8_t code, float scale, bf16 tail) {
    const RowLayout layout = scene.shape.selected_layout;
    for (std::int32_t position = 0; position < Scene::kPages * Scene::kPageRows; ++position) {
      if (std::binary_search(scene.selected.begin(), scene.selected.end(), position)) continue;
      std::byte* row = const_cast<std::byte*>(scene.query.selected_rows.row(position));
      std::memset(row, code, static_cast<std::size_t>(layout.code_bytes()));
      row += layout.code_bytes();
      for (int i = 0; i < layout.groups(); ++i, row += sizeof(scale)) std::memcpy(row, &scale, sizeof(scale));
      for (int i = 0; i < layout.tail; ++i, row += sizeof(tail)) std::memcpy(row, &tail, sizeof(tail));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, Fault54, every_set(), set_name);

TEST_P(Fault54, RowsBeforeBetweenAndBehindTheSelectedAreNeverRead) {
  Random random;
  SCOPED_TRACE(random.trace());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int selected : {1, 63, 64, 65, 200}) {
    for (const int heads : {1, 16}) {
      SCOPED_TRACE(testing::Message() << selected << " rows, " << heads << " heads");
      Scene scene(random, {"", heads, 576, 512, 0, 0, kNone, selected, false}, Fp8Scale::float32);
      Context context(2);
      fill_others(scene, 0, 0.0f, bf16{0});
      const std::vector<bf16> want = run(context, scene, kernels());
      fill_others(scene, 0x7E, kInfinity, bf16{0x7F80});
      EXPECT_TRUE(same_bits(run(context, scene, kernels()).data(), want.data(), scene.outputs())) << "infinities";
      fill_others(scene, 0xFF, std::numeric_limits<float>::quiet_NaN(), bf16{0x7FC0});
      EXPECT_TRUE(same_bits(run(context, scene, kernels()).data(), want.data(), scene.outputs())) << "NaNs";
      for (const bf16 value : want) ASSERT_TRUE(std::isfinite(to_float(value)));
    }
  }
}

}  // namespace
}  // namespace skim::test

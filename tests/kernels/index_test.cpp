// Claims: index scores of every kernel set keep the published rounding points and read no position that cannot be seen;
// top-k and candidate blocks are pure functions of the scores: the lower position and the lower block win every tie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "every_set.hpp"
#include "formats/e4m3.hpp"
#include "kernels/reference/reference.hpp"
#include "random_tensors.hpp"

namespace skim::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr RowLayout kFp4{RowFormat::fp4_e8m0, 128}, kFp8{RowFormat::fp8_f32, 128};

/// One query and `visible` keys in pages of 7; keys beyond are NaN.
struct Scene {
  static constexpr std::int64_t kPageRows = 7;
  IndexShape shape;
  IndexQuery query;
  std::vector<std::byte> heads;
  std::vector<float> weights;
  std::vector<std::vector<std::byte>> pages;
  std::vector<const std::byte*> page_pointers;
  std::vector<std::int32_t> blocks;
  std::vector<float> scores;

  Scene(Random& random, int head_count, RowLayout layout, std::int64_t visible)
      : shape{head_count, layout},
        heads(static_cast<std::size_t>(head_count * shape.layout.bytes())),
        weights(random.floats(head_count)) {
    if (layout.format == RowFormat::fp4_e8m0) {
      for (float& weight : weights) weight = round_bf16(weight);
    }
    for (int h = 0; h < head_count; ++h) random.packed_row(shape.layout, heads.data() + h * shape.layout.bytes());
    const std::int64_t page_count = visible / kPageRows + 3;
    pages.assign(static_cast<std::size_t>(page_count),
                 std::vector<std::byte>(static_cast<std::size_t>(kPageRows * shape.layout.bytes()), std::byte{0xFF}));
    for (std::int64_t t = 0; t < visible; ++t) {
      random.packed_row(shape.layout,
                        pages[static_cast<std::size_t>(t / kPageRows)].data() + t % kPageRows * shape.layout.bytes());
    }
    for (const auto& page : pages) page_pointers.push_back(page.data());
    query = {heads.data(), weights.data(), {page_pointers.data(), kPageRows, shape.layout.bytes()}, {}, nullptr};
    set_range({visible, false, {}, 0});
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  void set_range(const IndexRange& range) {
    query.range = range;
    scores.assign(static_cast<std::size_t>(range.slots()) + 1, 42.0f);  // one more, which must stay
    query.scores = scores.data();
  }
};

struct Score {
  double value = 0, size = 0;
};

/// The definition for fp4_e8m0 rows, dots in double precision.
Score fp4_score(const Scene& scene, std::int64_t position) {
  const auto width = static_cast<std::size_t>(scene.shape.layout.width);
  std::vector<float> key(width), head(width);
  unpack_row(scene.shape.layout, scene.query.keys.row(position), key.data());
  Score score;
  for (int h = 0; h < scene.shape.heads; ++h) {
    unpack_row(scene.shape.layout, scene.query.query + h * scene.shape.layout.bytes(), head.data());
    double dot = 0;
    for (std::size_t i = 0; i < width; ++i) dot += static_cast<double>(head[i]) * key[i];
    const float positive = std::max(round_bf16(static_cast<float>(dot)), 0.0f);
    const float term = round_bf16(positive * scene.weights[static_cast<std::size_t>(h)]);
    score.value += term;
    score.size += std::abs(term);
  }
  return score;
}

/// The definition for fp8_f32 rows in double precision: the scale of a query row is in its weight already.
Score fp8_score(const Scene& scene, std::int64_t position) {
  const RowLayout layout = scene.shape.layout;
  const std::byte* key = scene.query.keys.row(position);
  Score score;
  for (int h = 0; h < scene.shape.heads; ++h) {
    const std::byte* head = scene.query.query + h * layout.bytes();
    double dot = 0, size = 0;
    for (int i = 0; i < layout.width; ++i) {
      const double product = static_cast<double>(e4m3_to_float(std::to_integer<std::uint8_t>(head[i]))) *
                             e4m3_to_float(std::to_integer<std::uint8_t>(key[i]));
      dot += product;
      size += std::abs(product);
    }
    const double weight = scene.weights[static_cast<std::size_t>(h)];
    score.value += std::max(dot, 0.0) * weight;
    score.size += size * std::abs(weight);
  }
  float scale;
  std::memcpy(&scale, key + layout.width, sizeof(scale));
  return {score.value * scale, score.size * scale};
}

class IndexScore : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, IndexScore, every_set(), set_name);

TEST_P(IndexScore, KeepsThePublishedRounding) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const auto& [heads, width, visible] :
       {std::tuple{1, 32, 1}, {1, 128, 17}, {3, 96, 64}, {4, 128, 49}, {32, 128, 701}, {5, 64, 0}}) {
    SCOPED_TRACE(testing::Message() << heads << " heads, width " << width << ", visible " << visible);
    Scene scene(random, heads, {RowFormat::fp4_e8m0, width}, visible);
    Context context(2);
    kernels().index_score(context, scene.shape, {&scene.query, 1});
    std::vector<double> want, allowed;
    int exact = 0;
    for (int t = 0; t < visible; ++t) {
      const Score score = fp4_score(scene, t);
      want.push_back(round_bf16(static_cast<float>(score.value)));
      // A float32 dot on the other side of a rounding boundary moves its term by one step of bf16.
      allowed.push_back(2 * kBf16Epsilon * (score.size + std::abs(score.value)));
      exact += scene.scores[static_cast<std::size_t>(t)] == want.back();
    }
    EXPECT_TRUE(close(scene.scores.data(), want, allowed));
    EXPECT_GE(exact, visible * 9 / 10);
    EXPECT_EQ(scene.scores.back(), 42.0f);
  }
}

/// Every set sums float32 products, in an order of its own.
void expect_fp8_scores(const Kernels& kernels, Context& context, Scene& scene) {
  std::vector<double> want, allowed;
  for (std::int64_t t = 0; t < scene.query.range.visible; ++t) {
    const Score score = fp8_score(scene, t);
    want.push_back(score.value);
    allowed.push_back((scene.shape.layout.width + scene.shape.heads + 3) * kFloatEpsilon * score.size);
  }
  scene.set_range(scene.query.range);
  kernels.index_score(context, scene.shape, {&scene.query, 1});
  EXPECT_TRUE(close(scene.scores.data(), want, allowed));
  EXPECT_EQ(scene.scores.back(), 42.0f);
}

TEST_P(IndexScore, OfFp8RowsIsFloat32Throughout) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const auto& [heads, width, visible] : {std::tuple{64, 128, 133}, {1, 128, 1}, {32, 64, 701}, {5, 126, 0}}) {
    for (const Fp8Scale kind : {Fp8Scale::float32, Fp8Scale::pow2}) {
      SCOPED_TRACE(testing::Message() << heads << " heads, width " << width << ", visible " << visible);
      Scene scene(random, heads, {RowFormat::fp8_f32, width, 0, kind}, visible);
      Context context(2);
      expect_fp8_scores(kernels(), context, scene);
      expect_fp8_scores(reference::kernels(), context, scene);
    }
  }
}

TEST_P(IndexScore, NarrowFp8RowsIgnoreWhatWideOnesLeftInScratchMemory) {
  Random random;
  SCOPED_TRACE(random.trace());
  Context context(1);
  for (const int width : {128, 2, 1, 33, 66, 127}) {
    SCOPED_TRACE(width);
    Scene scene(random, 3, {RowFormat::fp8_f32, width}, 49);
    expect_fp8_scores(kernels(), context, scene);
  }
}

TEST_P(IndexScore, InBlocksOnlyListedAndVisiblePositionsAreRead) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const RowLayout layout : {kFp4, kFp8}) {
    for (const std::int64_t visible : {1, 15, 16, 21, 450}) {
      SCOPED_TRACE(visible);
      Scene scene(random, 4, layout, visible);
      Context context(2);
      kernels().index_score(context, scene.shape, {&scene.query, 1});
      const std::vector<float> all = scene.scores;
      std::vector<std::int32_t> blocks;
      for (std::int32_t block = 0; block * 8 < visible + 32; block += 2) blocks.push_back(block);
      for (std::int64_t t = 0; t < visible; ++t) {
        if (t / 8 % 2 == 1)
          std::fill_n(const_cast<std::byte*>(scene.query.keys.row(t)), layout.bytes(), std::byte{0xFF});
      }
      scene.set_range({visible, true, blocks, 8});
      EXPECT_GE(scene.query.range.slots(), static_cast<std::int64_t>(blocks.size() - 1) * 8);
      kernels().index_score(context, scene.shape, {&scene.query, 1});
      for (std::int64_t slot = 0; slot < scene.query.range.slots(); ++slot) {
        const std::int64_t position = scene.query.range.position(slot);
        EXPECT_EQ(scene.scores[static_cast<std::size_t>(slot)],
                  position < visible ? all[static_cast<std::size_t>(position)] : -kInfinity)
            << "position " << position;
      }
      EXPECT_EQ(scene.scores.back(), 42.0f);
    }
  }
}

TEST_P(IndexScore, BitsDependOnQueryAndKeyAlone) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const RowLayout layout : {kFp4, kFp8}) {
    Scene a(random, 20, layout, 901), b(random, 20, layout, 33);
    Context one(1), two(2);
    kernels().index_score(one, a.shape, {&a.query, 1});
    const std::vector<float> alone = a.scores;
    a.set_range(a.query.range);
    const std::vector<IndexQuery> both = {b.query, a.query};
    kernels().index_score(two, a.shape, both);
    EXPECT_TRUE(same_bits(alone.data(), a.scores.data(), 901));
    a.set_range({500, false, {}, 0});
    kernels().index_score(two, a.shape, {&a.query, 1});
    EXPECT_TRUE(same_bits(alone.data(), a.scores.data(), 500));
  }
}

class Fault51 : public EverySet {};
INSTANTIATE_TEST_SUITE_P(, Fault51, every_set(), set_name);

TEST_P(Fault51, NegativeDotsCountAsZero) {
  Random random;
  Scene scene(random, 2, {RowFormat::fp4_e8m0, 32}, 1);
  std::vector<bf16> row(32, bf16{0});
  row[0] = to_bf16(1);
  pack_row(scene.shape.layout, row.data(), scene.pages[0].data());
  row[0] = to_bf16(6);
  pack_row(scene.shape.layout, row.data(), scene.heads.data());
  row[0] = to_bf16(-6);
  pack_row(scene.shape.layout, row.data(), scene.heads.data() + scene.shape.layout.bytes());
  scene.weights = {1, 1};
  scene.query.weights = scene.weights.data();
  Context context(1);
  kernels().index_score(context, scene.shape, {&scene.query, 1});
  EXPECT_EQ(scene.scores[0], 6.0f);
}

TEST_P(Fault51, NegativeDotsOfFp8RowsCountAsZero) {
  Random random;
  Scene scene(random, 2, kFp8, 1);
  scene.shape.layout.fp8_scale = Fp8Scale::pow2;
  std::vector<bf16> row(128, bf16{0});
  row[100] = to_bf16(1);
  pack_row(scene.shape.layout, row.data(), scene.pages[0].data());
  row[100] = to_bf16(5);
  pack_row(scene.shape.layout, row.data(), scene.heads.data());
  row[100] = to_bf16(-5);
  pack_row(scene.shape.layout, row.data(), scene.heads.data() + scene.shape.layout.bytes());
  for (float& weight : scene.weights) weight = row_scale(scene.shape.layout, scene.heads.data(), 0);
  Context context(1);
  kernels().index_score(context, scene.shape, {&scene.query, 1});
  EXPECT_EQ(scene.scores[0], 5.0f);
}

class SelectTopk : public EverySet {
 protected:
  std::vector<std::int32_t> select(Context& context, const std::vector<float>& scores, int k, IndexRange range) const {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(k), -7);
    std::int32_t count = -7;
    const TopkQuery query{scores, range, k, positions.data(), &count};
    kernels().select_topk(context, {&query, 1});
    EXPECT_GE(count, 0);
    EXPECT_LE(count, k);
    positions.resize(static_cast<std::size_t>(std::clamp(count, 0, k)));
    return positions;
  }
  std::vector<std::int32_t> select(const std::vector<float>& scores, int k) const {
    Context context(2);
    return select(context, scores, k, {static_cast<std::int64_t>(scores.size()), false, {}, 0});
  }
};
INSTANTIATE_TEST_SUITE_P(, SelectTopk, every_set(), set_name);

std::vector<std::int32_t> topk_by_sorting(const std::vector<float>& scores, int k) {
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > -kInfinity) order.push_back(static_cast<std::int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  std::sort(order.begin(), order.end());
  return order;
}

TEST_P(SelectTopk, EqualsAStableSort) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t count : {1, 2, 17, 512, 513, 5000}) {
    for (const int k : {1, 2, 64, 512}) {
      std::vector<float> coarse = random.floats(count), fine = coarse;
      for (float& score : coarse) score = std::round(2 * score);  // few values, many ties, both zeros
      EXPECT_EQ(select(coarse, k), topk_by_sorting(coarse, k)) << count << " scores, k " << k;
      EXPECT_EQ(select(fine, k), topk_by_sorting(fine, k)) << count << " scores, k " << k;
    }
  }
}

TEST_P(SelectTopk, LongListsInAnyOrder) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t count : {4096, 40'001}) {
    std::vector<float> ascending = random.floats(count), with_nan = ascending;
    for (std::size_t i = 0; i < with_nan.size(); i += 3) with_nan[i] = std::numeric_limits<float>::quiet_NaN();
    std::sort(ascending.begin(), ascending.end());
    const std::vector<float> descending(ascending.rbegin(), ascending.rend()), equal(ascending.size(), -3.0f);
    for (const int k : {1, 100, 2048}) {
      for (const auto& scores : {ascending, descending, equal, with_nan}) {
        EXPECT_EQ(select(scores, k), topk_by_sorting(scores, k)) << count << " scores, k " << k;
      }
    }
  }
}

TEST_P(SelectTopk, MinusInfinityAndNanAreNeverChosen) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(select(std::vector<float>(20, -kInfinity), 4), std::vector<std::int32_t>());
  EXPECT_EQ(select(std::vector<float>(20, nan), 4), std::vector<std::int32_t>());
  EXPECT_EQ(select({nan, 1, -kInfinity, -1, nan, -nan, 3}, 4), (std::vector<std::int32_t>{1, 3, 6}));
  EXPECT_EQ(select({nan, kInfinity, -kInfinity, -1, nan, 3}, 2), (std::vector<std::int32_t>{1, 5}));
}

TEST_P(SelectTopk, SlotsBecomePositionsOfTheirBlocks) {
  const std::vector<std::int32_t> blocks = {1, 4, 5};
  std::vector<float> scores(24, 0.0f);
  for (std::size_t i = 21; i < 24; ++i) scores[i] = -kInfinity;  // visible ends at 45
  scores[9] = 2;
  scores[20] = 1;
  Context context(1);
  const IndexRange range{45, true, blocks, 8};
  EXPECT_EQ(select(context, scores, 4, range), (std::vector<std::int32_t>{8, 9, 33, 44}));
  const std::vector<std::int32_t> every = select(context, scores, 30, range);
  EXPECT_EQ(every.size(), 21u);
  EXPECT_EQ(every.back(), 44);
}

class Fault46 : public SelectTopk {};
INSTANTIATE_TEST_SUITE_P(, Fault46, every_set(), set_name);

TEST_P(Fault46, PlateauOfZerosGivesItsLowestPositions) {
  std::vector<float> scores(4000, 0.0f);
  for (std::size_t i = 0; i < 10; ++i) scores[397 * i + 100] = 1.0f + static_cast<float>(i % 3);
  std::vector<std::int32_t> want;
  for (std::int32_t i = 0; i < 54; ++i) want.push_back(i);
  for (std::int32_t i = 0; i < 10; ++i) want.push_back(397 * i + 100);
  for (int run = 0; run < 100; ++run) ASSERT_EQ(select(scores, 64), want) << "run " << run;
}

class Fault48 : public SelectTopk {};
INSTANTIATE_TEST_SUITE_P(, Fault48, every_set(), set_name);

TEST_P(Fault48, AnyLength) {
  Random random;
  SCOPED_TRACE(random.trace());
  constexpr int kK = 16;
  for (const int length : {0, 1, kK - 1, kK, kK + 1}) {
    const std::vector<float> scores = random.floats(length);
    EXPECT_EQ(select(scores, kK), topk_by_sorting(scores, kK)) << "length " << length;
  }
}

class SelectBlocks : public EverySet {
 protected:
  std::vector<std::int32_t> select(const std::vector<float>& scores, int block_size, int k) const {
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(k), -7);
    std::int32_t count = -7;
    const BlockQuery query{scores, block_size, k, blocks.data(), &count};
    Context context(2);
    kernels().select_blocks(context, {&query, 1});
    EXPECT_GE(count, 0);
    EXPECT_LE(count, k);
    blocks.resize(static_cast<std::size_t>(std::clamp(count, 0, k)));
    return blocks;
  }
};
INSTANTIATE_TEST_SUITE_P(, SelectBlocks, every_set(), set_name);

TEST_P(SelectBlocks, EqualsAStableSort) {
  Random random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t visible : {1, 7, 8, 9, 333, 4000}) {
    for (const int k : {1, 2, 5, 64}) {
      std::vector<float> scores = random.floats(visible), best;
      for (float& score : scores) score = std::round(score);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        if (i % 8 == 0) best.push_back(scores[i]);
        best.back() = std::max(best.back(), scores[i]);
      }
      best.back() = kInfinity;
      EXPECT_EQ(select(scores, 8, k), topk_by_sorting(best, k)) << visible << " visible, k " << k;
    }
  }
}

TEST_P(SelectBlocks, BlocksWithoutScoresComeLast) {
  std::vector<float> scores(8000, -kInfinity);
  scores[8 * 500 + 3] = -5;
  scores[8 * 700] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(select(scores, 8, 4), (std::vector<std::int32_t>{0, 1, 500, 999}));
  EXPECT_EQ(select(scores, 8, 2), (std::vector<std::int32_t>{500, 999}));
}

TEST_P(SelectBlocks, NothingVisibleKeepsNothing) { EXPECT_EQ(select({}, 8, 2), std::vector<std::int32_t>()); }

class Fault09 : public SelectBlocks {};
INSTANTIATE_TEST_SUITE_P(, Fault09, every_set(), set_name);

TEST_P(Fault09, NewestBlockIsPinnedAndTheLowerOneWinsATie) {
  std::vector<float> scores(20, 5.0f);
  std::fill(scores.begin() + 16, scores.end(), -5.0f);
  EXPECT_EQ(select(scores, 8, 1), (std::vector<std::int32_t>{2}));
  EXPECT_EQ(select(scores, 8, 2), (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(select(scores, 8, 3), (std::vector<std::int32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace skim::test

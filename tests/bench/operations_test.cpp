// Claims: contenders take turns; shares and work are what their definitions say; a planted sequence is one that can be
// continued, with the bytes and the bits of its length; every operation runs with every kernel set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "attention/stack.hpp"
#include "bench/layers.hpp"
#include "bench/operations.hpp"
#include "bench/plant.hpp"
#include "bench/report.hpp"
#include "bench/shapes.hpp"

namespace skim::bench {
namespace {

Model tiny(const std::string& name) { return Model(Checkpoint::synthetic(named_config(name))); }

std::vector<Sampler> noting(std::string& turns) {
  std::vector<Sampler> samplers;
  for (const char name : {'A', 'B'}) {
    samplers.emplace_back([&turns, name] { return turns += name, std::vector<double>{1.0}; });
  }
  return samplers;
}

TEST(Turns, AlternateAndTheFirstRoundDoesNotCount) {
  std::string turns;
  const auto rounds = take_turns(noting(turns), {.repeats = 3, .seconds = 1e3}, [&] { turns += '-'; });
  EXPECT_EQ(turns, "-AB-AB-AB-AB");
  ASSERT_EQ(rounds.size(), 3u);
  EXPECT_EQ(rounds[0].size(), 2u);
}

TEST(Turns, EndAfterTwoRoundsWhenTheTimeIsUp) {
  std::string turns;
  EXPECT_EQ(take_turns(noting(turns), {.repeats = 9, .seconds = 0}, [] {}).size(), 2u);
  EXPECT_EQ(turns, "ABAB");
}

TEST(Turns, AFirstRoundThatTakesAllTheTimeCounts) {
  std::string turns;
  EXPECT_EQ(take_turns(noting(turns), {.repeats = 1, .seconds = 0}, [] {}).size(), 1u);
  EXPECT_EQ(turns, "AB");
}

TEST(Turns, MedianIsTheMiddle) {
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({}), 0);
}

TEST(Result, TheShareIsTheLongerOfBothTimesByTheTimeTaken) {
  Result result;
  result.work = {.products = 100, .integer_products = 50, .bytes = 10};
  const Rates arithmetic_binds{.products = 10, .integer_products = 5, .bytes = 1};  // 20 s, memory 10 s
  result.rates = {arithmetic_binds, arithmetic_binds, {.products = 20, .integer_products = 10, .bytes = 1}};
  result.seconds = {40, 80, 20};
  EXPECT_EQ(result.share(), 0.5);  // of 0.5, 0.25 and 0.5
  EXPECT_FALSE(result.memory_binds());
  EXPECT_EQ(result.best(), 20);
  EXPECT_EQ(result.typical(), 40);
  result.work.bytes = 1000;
  EXPECT_TRUE(result.memory_binds());
}

TEST(Ceilings, EveryProbeDoesSomething) {
  Context context(2);
  Ceilings ceilings(context);
  for (const Ceiling& ceiling : ceilings.all()) {
    for (const double rate : ceiling.one) EXPECT_GT(rate, 1e6) << ceiling.name;
    EXPECT_EQ(ceiling.all.size(), 3u) << ceiling.name;
  }
  const Rates rates = ceilings.sample();
  EXPECT_GT(rates.products, 1e6);
  EXPECT_GE(rates.integer_products, rates.products / 100);
  EXPECT_GT(rates.bytes, 1e6);
  EXPECT_GT(ceilings.read_rate(std::vector<std::byte>(1 << 16)), 1e6);
}

/// Released V4.1: 32 index heads of 128, keys of 68 bytes, 512 of the positions attended to, in blocks from layer 24
/// on.
TEST(LayerWork, GrowsWithTheContextByTheIndexScanAlone) {
  const Checkpoint checkpoint = Checkpoint::synthetic(named_config("v41-flash"));
  const std::int64_t near = 1 << 16, far = 1 << 20, more = far - near;
  const Work a = layer_work(checkpoint, 20, near, 1), b = layer_work(checkpoint, 20, far, 1);
  EXPECT_EQ(b.integer_products - a.integer_products, 2.0 * 32 * 128 * static_cast<double>(more));
  EXPECT_EQ(b.bytes - a.bytes, 68.0 * static_cast<double>(more));
  EXPECT_EQ(b.products, a.products);
  const Work c = layer_work(checkpoint, 24, near, 1), d = layer_work(checkpoint, 24, far, 1);
  EXPECT_EQ(c.operations(), d.operations());
  EXPECT_EQ(c.bytes, d.bytes);
  EXPECT_EQ(c.integer_products, 2.0 * 32 * 128 * 2048 * 8);
  EXPECT_EQ(layer_work(checkpoint, 0, near, 1).integer_products, 0);
}

/// 12 tensors: four matrices in fp8 with a scale per 32 x 32, one in bf16; 128 window rows of 528 bytes.
TEST(LayerWork, CountsWeightsOnceAndProductsForEveryToken) {
  const Checkpoint checkpoint = Checkpoint::synthetic(named_config("v41-flash"));
  const double fp8 = 1280.0 * 5120 + 32768.0 * 1280 + 512.0 * 5120 + 5120.0 * 8192, bf16_elements = 8192.0 * 4096;
  for (const int tokens : {1, 512}) {
    const Work work = layer_work(checkpoint, 0, 1000, tokens);
    EXPECT_EQ(work.products, tokens * (2 * (fp8 + bf16_elements) + 2.0 * 128 * 64 * 1024));
    EXPECT_EQ(work.bytes, fp8 + fp8 / 1024 + 2 * bf16_elements + (128 + tokens - 1) * 528.0 + tokens * 4 * 5120.0);
  }
}

TEST(RandomOperands, AreFiniteAndInRange) {
  RandomWords random(1);
  for (const RowLayout layout : {RowLayout{RowFormat::fp8_e8m0, 64}, RowLayout{RowFormat::fp4_e4m3, 64},
                                 RowLayout{RowFormat::fp4_e8m0, 64}, RowLayout{RowFormat::fp8_f32, 160, 32}}) {
    std::vector<std::byte> rows(static_cast<std::size_t>(50 * layout.bytes()));
    random_rows(random, layout, rows.data(), 50);
    std::vector<float> values(static_cast<std::size_t>(layout.width));
    double size = 0;
    for (int i = 0; i < 50; ++i) {
      unpack_row(layout, rows.data() + i * layout.bytes(), values.data());
      for (const float value : values) size = std::max(size, std::abs(static_cast<double>(value)));
    }
    EXPECT_GT(size, 1);
    EXPECT_LE(size, 3);  // false if anything is NaN or infinite
  }
  for (const std::int64_t limit : {8, 9, 1000}) {
    const std::vector<std::int32_t> positions = random_positions(random, limit, 8);
    EXPECT_EQ(std::adjacent_find(positions.begin(), positions.end(), std::greater_equal<>()), positions.end());
    EXPECT_GE(positions.front(), 0);
    EXPECT_LT(positions.back(), limit);
  }
}

class Plant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Plant, testing::Values("v41-tiny", "v32-tiny", "v4-tiny"),
                         [](const auto& name) { return std::string(name.param, std::strcspn(name.param, "-")); });

TEST_P(Plant, TakesTheBytesOfASequenceThatWasFed) {
  const Model model = tiny(GetParam());
  for (const std::int64_t tokens : {1, 7, 64, 131, 256}) {
    const CacheOptions options{.max_tokens = 256, .rollback = 3, .page_rows = 16, .threads = 1};
    KvCache planted(model, options);
    test::Stack stack(model, options);
    stack.add("a");
    stack.feed({{"a", tokens}});
    RandomWords random(1);
    const SequenceId id = plant(planted, tokens, random);
    EXPECT_EQ(planted.bytes(), stack.cache().bytes());
    EXPECT_EQ(planted.length(id), tokens);
    EXPECT_EQ(planted.restorable(id), stack.cache().restorable(stack.id("a")));
    EXPECT_EQ(test::state_bytes(planted, id).size(), test::state_bytes(stack.cache(), stack.id("a")).size());
  }
}

/// One batch, single tokens, other pages, after a file: the continuation has the same bits, and finite ones.
TEST_P(Plant, CanBeContinued) {
  const Model model = tiny(GetParam());
  const std::string file = (std::filesystem::temp_directory_path() / "skim-planted.seq").string();
  std::vector<test::Outcome> outcomes;
  for (const int way : {0, 1, 2, 3}) {
    const CacheOptions options{.max_tokens = 256, .page_rows = way == 2 ? 7 : 16, .threads = 1};
    test::Stack stack(model, options);
    RandomWords random(9);
    SequenceId id = plant(stack.cache(), 101, random);
    if (way == 3) {
      stack.cache().save(id, file);
      id = stack.cache().load(file);
      std::filesystem::remove(file);
    }
    stack.adopt("a", id);
    if (way == 1) {
      for (int i = 0; i < 6; ++i) stack.feed({{"a", 1}});
    } else {
      stack.feed({{"a", 6}});
    }
    outcomes.push_back(stack.outcome("a"));
    EXPECT_EQ(test::difference(outcomes[0], outcomes.back()), "") << "way " << way;
  }
  for (const auto& [layer, out] : outcomes[0].out) {
    for (const bf16 value : out) ASSERT_TRUE((value.bits & 0x7F80) != 0x7F80) << "layer " << layer;
  }
}

TEST_P(Plant, RespectsTheLimitsOfTheCache) {
  const Model model = tiny(GetParam());
  RandomWords random(1);
  KvCache cache(model, {.max_tokens = 100, .max_bytes = 10'000, .threads = 1});
  EXPECT_THROW(plant(cache, 101, random), Error);
  EXPECT_THROW(plant(cache, 100, random), Error);
  EXPECT_EQ(cache.bytes(), 0);
}

TEST_P(Plant, LayersRunBehindIt) {
  LayerSubject subject(Checkpoint::synthetic(named_config(GetParam())), {}, {.max_tokens = 300, .threads = 1});
  for (const std::int64_t context : {0, 5, 200}) {
    subject.plant(context);
    for (const std::int64_t tokens : {1, 40}) {
      const std::vector<double> seconds = subject.forward(tokens);
      EXPECT_EQ(seconds.size(), subject.model().layers().size());
      EXPECT_GT(*std::min_element(seconds.begin(), seconds.end()), 0);
    }
  }
}

TEST(Operations, RunWithEveryKernelSet) {
  Context context(2);
  for (const char* name : {"v41-tiny", "v32-tiny"}) {
    const std::vector<Operation> all = operations(Checkpoint::synthetic(named_config(name)));
    for (const KernelSet& set : kernel_sets()) {
      if (!is_available(set) || set.name == "reference") continue;
      for (const Operation& operation : all) {
        SCOPED_TRACE(operation.title());
        EXPECT_GT(operation.work.bytes, 0);
        operation.make(set, context)->run();
      }
    }
  }
}

}  // namespace
}  // namespace skim::bench

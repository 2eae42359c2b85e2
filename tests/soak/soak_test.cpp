// Claims: a soak notices any bit that is wrong, before or after it can be seen; the same seed gives the same soak.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "skim/skim.hpp"
#include "soak/table.hpp"
#include "soak/run.hpp"

namespace skim::cli {
namespace {

Model tiny(const std::string& name, const std::string& kernels = "") {
  return Model(Checkpoint::synthetic(named_config(name)), {.kernels = kernels});
}

TEST(Soak, TheSameSeedDoesTheSame) {
  const Model portable = tiny("v41-tiny", "portable"), reference = tiny("v41-tiny", "reference");
  SoakOptions options;
  options.operations = 80;
  options.seed = 11;
  const SoakReport a = soak(portable, options), b = soak(reference, options);
  EXPECT_EQ(a.difference, "");
  EXPECT_EQ(b.difference, "");
  EXPECT_EQ(a.operations, b.operations);
  EXPECT_EQ(a.checked_tokens, b.checked_tokens);
  EXPECT_EQ(a.refusals, b.refusals);
  EXPECT_EQ(a.largest_bytes, b.largest_bytes);
  EXPECT_EQ(a.doing, b.doing);
  options.seed = 12;
  EXPECT_NE(soak(portable, options).checked_tokens, a.checked_tokens);
}

/// A sequence of a cache without limits, and what is known of it.
class Tampered : public testing::TestWithParam<std::string> {
 protected:
  Tampered() {
    table_.subject = std::make_unique<Subject>(model_, CacheOptions{.max_tokens = 200, .rollback = 4, .threads = 1});
    const SequenceId id = table_.add().value();
    table_.extend({{id, 0, random_tokens(table_.random, 30)}});
    table_.check(sequence());
    EXPECT_EQ(table_.report.difference, "");
  }

  Tracked& sequence() { return table_.subject->sequences.front(); }
  /// What the check finds.
  std::string found() {
    table_.check_all();
    return table_.report.difference;
  }
  void expect_found(const std::string& words) {
    const std::string difference = found();
    EXPECT_NE(difference.find(words), std::string::npos) << difference;
  }

  Model model_ = tiny(GetParam());
  SoakTable table_{model_, 7};
};

TEST_P(Tampered, OneBitOfAnOutputIsFound) {
  TokenOutputs& outputs = sequence().history.outputs[17];
  outputs[outputs.size() - 3].bits ^= 1;
  expect_found("position 17 layer " + std::to_string(model_.layers().back()) + ": element 125 is ");
}

TEST_P(Tampered, AnOutputThatIsMissingIsFound) {
  sequence().history.outputs.pop_back();
  expect_found("outputs of 29 tokens, expected 30");
}

TEST_P(Tampered, AnotherTokenIsFound) {
  sequence().history.tokens[3] ^= 1;
  expect_found("position 3 layer ");
}

/// Outputs so far are right, but the cache holds something else: only what comes next can tell.
TEST_P(Tampered, AnotherStateOfTheCacheIsFound) {
  Tracked& changed = sequence();
  const History before = changed.history;
  table_.truncate(changed, 28);
  table_.extend({{changed.id, 28, random_tokens(table_.random, 2)}});
  changed.history = before;
  expect_found(", continued: position 3");
}

TEST_P(Tampered, AnotherLengthIsFound) {
  sequence().history.truncate(29);
  EXPECT_NE(table_.subject->problem().find("length() is 30, expected 29"), std::string::npos);
}

TEST_P(Tampered, ACallThatShouldHaveFailedOrHadNoEffectIsFound) {
  const SequenceId id = sequence().id;
  EXPECT_FALSE(table_.goes_through(
      [&] {
        table_.subject->cache.truncate(id, 0);
        throw Error(ErrorCode::limit_exceeded, "half way");
      },
      ErrorCode::limit_exceeded));
  EXPECT_NE(table_.report.difference.find("refused (half way), but "), std::string::npos) << table_.report.difference;
}

INSTANTIATE_TEST_SUITE_P(EveryModel, Tampered, testing::Values("v41-tiny", "v32-tiny"),
                         [](const auto& tested) { return tested.param.substr(0, 3); });

}  // namespace
}  // namespace skim::cli

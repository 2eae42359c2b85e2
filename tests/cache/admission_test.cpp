// Claims: admission is refused exactly when begin would refuse, with the same words; what begin takes is what was
// foreseen; what is removed is free at once.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "cache/cache_fixture.hpp"

namespace skim::test {
namespace {

using Entries = std::vector<BatchEntry>;

/// Whether the entries are admitted, which begin has to agree with, as has what begin leaves behind.
bool is_admitted(KvCache& cache, const Entries& entries) {
  const std::int64_t bytes = cache.bytes();
  const std::optional<std::string> problem = cache.admission_problem(entries);
  EXPECT_EQ(cache.can_admit(entries), !problem.has_value());
  try {
    cache.begin(entries);  // dropped
    EXPECT_EQ(problem.value_or(""), "");
  } catch (const Error& error) {
    EXPECT_EQ(problem.value_or(""), error.what());
  }
  EXPECT_EQ(cache.bytes(), bytes);
  return !problem.has_value();
}

TEST(Admission, AgreesWithBeginAboutEveryKindOfEntry) {
  const Model model(Checkpoint::synthetic(one_layer(2)));
  Stack stack(model, {.max_tokens = 64, .page_rows = 4, .threads = 1});
  for (const char* name : {"a", "b", "c"}) stack.add(name);
  stack.feed({{"a", 21}});
  KvCache& cache = stack.cache();
  const SequenceId a = stack.id("a"), b = stack.id("b"), c = stack.id("c");
  const Batch open = cache.begin({{c, 1}});
  EXPECT_TRUE(is_admitted(cache, {{a, 43}, {b, 64}}));
  EXPECT_TRUE(is_admitted(cache, {{b, 1}}));
  for (const Entries& refused : std::vector<Entries>{{},
                                                     {{a, 44}},
                                                     {{b, 65}},
                                                     {{b, 1}, {a, 44}},
                                                     {{a, 0}},
                                                     {{a, -1}},
                                                     {{a, 1}, {a, 1}},
                                                     {{c, 1}},
                                                     {{SequenceId{9}, 1}},
                                                     {{a, std::numeric_limits<std::int64_t>::max()}}}) {
    EXPECT_FALSE(is_admitted(cache, refused));
  }
  EXPECT_EQ(stack.difference_from_alone("a"), "");
}

/// Two sequences that share 21 tokens, and one of its own.
Stack shared_beginning(const Model& model, std::int64_t max_bytes) {
  Stack stack(model, {.max_tokens = 256, .max_bytes = max_bytes, .rollback = 3, .page_rows = 4, .threads = 1});
  for (const char* name : {"a", "c"}) stack.add(name);
  stack.feed({{"a", 21}});
  stack.fork("a", "b", 21);
  return stack;
}

/// Parameter: configuration.
class AdmissionBytes : public testing::TestWithParam<std::string> {
 protected:
  Model model_ = small_model({"portable", GetParam()});
};

TEST_P(AdmissionBytes, AByteTooFewIsRefusedAndNoneTooFewIsNot) {
  using Feed = std::vector<std::pair<std::string, std::int64_t>>;
  for (const Feed& feed : std::vector<Feed>{
           {{"a", 1}}, {{"b", 1}}, {{"b", 40}}, {{"a", 3}, {"b", 3}}, {{"c", 1}}, {{"c", 30}, {"a", 30}, {"b", 1}}}) {
    SCOPED_TRACE(testing::PrintToString(feed));
    const auto entries = [&](const Stack& stack) {
      Entries list;
      for (const auto& [name, tokens] : feed) list.push_back({stack.id(name), tokens});
      return list;
    };
    Stack unlimited = shared_beginning(model_, 0);
    const std::int64_t before = unlimited.cache().bytes();
    std::int64_t need = 0;
    {
      const Batch batch = unlimited.cache().begin(entries(unlimited));
      need = unlimited.cache().bytes();
    }
    if (need == before) continue;  // it fits into the pages there are

    Stack enough = shared_beginning(model_, need), scarce = shared_beginning(model_, need - 1);
    EXPECT_TRUE(is_admitted(enough.cache(), entries(enough)));
    EXPECT_FALSE(is_admitted(scarce.cache(), entries(scarce)));
    EXPECT_TRUE(refuses([&] { scarce.cache().begin(entries(scarce)); }, ErrorCode::limit_exceeded,
                        {"max_bytes is " + std::to_string(need - 1), std::to_string(need)}));
    for (const char* name : {"a", "b"}) EXPECT_EQ(scarce.difference_from_alone(name), "") << name;
    enough.feed(feed);
    EXPECT_LE(enough.cache().bytes(), need);
    for (const auto& [name, tokens] : feed) EXPECT_EQ(enough.difference_from_alone(name), "") << name;
  }
}

TEST_P(AdmissionBytes, WhatIsRemovedIsFreeAtOnce) {
  Stack unlimited(model_, {.max_tokens = 256, .page_rows = 4, .threads = 1});
  unlimited.add("a");
  unlimited.feed({{"a", 50}});
  Stack stack(model_, {.max_tokens = 256, .max_bytes = unlimited.cache().bytes(), .page_rows = 4, .threads = 1});
  for (const char* name : {"a", "b"}) stack.add(name);
  stack.feed({{"a", 50}});
  EXPECT_FALSE(is_admitted(stack.cache(), {{stack.id("b"), 50}}));
  stack.remove("a");
  EXPECT_EQ(stack.cache().bytes(), 0);
  EXPECT_TRUE(is_admitted(stack.cache(), {{stack.id("b"), 50}}));
  stack.feed({{"b", 50}});
  EXPECT_EQ(stack.difference_from_alone("b"), "");
}

INSTANTIATE_TEST_SUITE_P(Every, AdmissionBytes, testing::ValuesIn(small_config_names()),
                         [](const auto& suite) { return suite.param; });

}  // namespace
}  // namespace skim::test

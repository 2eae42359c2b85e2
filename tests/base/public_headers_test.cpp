// Claims: skim/skim.hpp is everything, and its types go into the usual containers.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "skim/skim.hpp"

namespace skim {
namespace {

/// Fault 147.
TEST(PublicHeaders, SequencesAreKeysOfMaps) {
  const SequenceId first{1}, second{2}, none;
  std::map<SequenceId, std::string> ordered = {{second, "b"}, {first, "a"}};
  EXPECT_EQ(ordered.begin()->second, "a");
  EXPECT_TRUE(none < first && second > first);
  std::unordered_map<SequenceId, std::string> hashed = {{second, "b"}, {first, "a"}};
  EXPECT_EQ(hashed.at(second), "b");
  EXPECT_EQ(hashed.count(none), 0u);
  EXPECT_EQ((std::set<SequenceId>{first, first, second}.size()), 2u);
}

/// Fault 147.
TEST(PublicHeaders, SkimHppIncludesMachineAndConversions) {
  EXPECT_FALSE(kernel_set_infos().empty());
  EXPECT_EQ(to_float(to_bf16(1.5f)), 1.5f);
}

}  // namespace
}  // namespace skim

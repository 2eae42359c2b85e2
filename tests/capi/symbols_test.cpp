// Claims: the shared library exports what skim.h declares, and nothing else.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator i(text.begin(), text.end(), pattern); i != std::sregex_iterator(); ++i) {
    found.insert((*i)[1]);
  }
  return found;
}

std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

TEST(Symbols, AreThoseThatTheHeaderDeclares) {
  std::ifstream file(SKIM_HEADER);
  const std::string header{std::istreambuf_iterator<char>(file), {}};
  const auto declared = matches(header, std::regex(R"((?:^|\n)[a-z0-9_]+\*? (skim_[a-z0-9_]+)\()"));
  // Absolute symbols are names of versions.
  const std::string listed = output_of("'" SKIM_NM "' -D --defined-only '" SKIM_C_LIBRARY "'");
  const auto exported = matches(listed, std::regex(R"(\n?[0-9a-f]+ [B-Zb-z] ([^@\n]+)[^\n]*)"));
  EXPECT_GT(declared.size(), 30u);
  EXPECT_EQ(exported, declared);
}

}  // namespace

// Claims: the shared library exports what skim.h declares, and nothing else; and needs no library that a machine may
// lack.
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace {

/// Declarations begin in the first column, with what is returned, and have their name before a parenthesis.
std::set<std::string> declared_names(std::istream&& header) {
  std::set<std::string> names;
  for (std::string line; std::getline(header, line);) {
    const std::size_t open = line.find('(');
    if (line.empty() || open == std::string::npos || std::isalpha(static_cast<unsigned char>(line[0])) == 0) continue;
    const std::size_t blank = line.rfind(' ', open);
    names.insert(line.substr(blank + 1, open - blank - 1));
  }
  return names;
}

/// Lines of nm: address, type, name@@version. Names of versions are absolute symbols.
std::set<std::string> exported_names(std::istream&& listed) {
  std::set<std::string> names;
  for (std::string address, type, name; listed >> address >> type >> name;) {
    if (type != "A") names.insert(name.substr(0, name.find('@')));
  }
  return names;
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
  const auto declared = declared_names(std::ifstream(SKIM_HEADER));
  const std::string listed = output_of("'" SKIM_NM "' -D --defined-only '" SKIM_C_LIBRARY "'");
  const auto exported = exported_names(std::istringstream(listed));
  EXPECT_GT(declared.size(), 30u);
  EXPECT_EQ(exported, declared);
}

/// Lines of readelf -d: 0x... (NEEDED) Shared library: [libm.so.6]
std::set<std::string> needed_libraries(std::istream&& listed) {
  std::set<std::string> names;
  for (std::string line; std::getline(listed, line);) {
    const std::size_t open = line.find('[');
    if (line.find("(NEEDED)") == std::string::npos || open == std::string::npos) continue;
    const std::string name = line.substr(open + 1, line.find(']') - open - 1);
    names.insert(name.substr(0, name.find(".so")));
  }
  return names;
}

/// Fault 146: fmt and xxHash are compiled in.
TEST(Symbols, ComeWithTheCompilerOrTheSystem) {
  const std::string listed = output_of("'" SKIM_READELF "' -d -W '" SKIM_C_LIBRARY "'");
  const auto needed = needed_libraries(std::istringstream(listed));
  EXPECT_TRUE(needed.contains("libc")) << listed;
  // OpenMP, until threads are the library's own; and what a build with sanitizers needs.
  const std::set<std::string> expected = {
      "libc",    "libm",    "libstdc++", "libgcc_s", "ld-linux-x86-64", "ld-linux-aarch64",
      "libgomp", "libasan", "libubsan",  "libtsan"};
  for (const std::string& name : needed) EXPECT_TRUE(expected.contains(name)) << name;
}

}  // namespace

// Claims: help fits a terminal, and completion and the manual page say what help says.
#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.hpp"

namespace skim {
namespace {

const char* const kCommands[] = {"", "run", "verify", "info", "bench", "soak"};

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << output;
  return output;
}

std::set<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

/// Long options that help shows at the beginning of a line.
std::set<std::string> options_of(const std::string& command) {
  std::istringstream help(skim(command + " --help").output);
  std::set<std::string> options;
  for (std::string line; std::getline(help, line);) {
    const std::size_t dashes = line.find("--");
    if (line.starts_with("  -") && dashes != std::string::npos) {
      options.insert(line.substr(dashes, line.find_first_of(" ,", dashes) - dashes));
    }
  }
  return options;
}

/// What bash offers behind `skim <arguments>`, with the cursor at the end.
std::set<std::string> completions(const std::string& arguments) {
  return words_of(output_of("bash -c 'COMP_WORDBREAKS=:; source " SKIM_COMPLETION "; COMP_LINE=\"skim " + arguments +
                            "\"; COMP_POINT=${#COMP_LINE}; _skim " SKIM_COMMAND " x x; echo \"${COMPREPLY[@]}\"'"));
}

/// Fault 143.
TEST(Help, FitsIntoAHundredColumns) {
  for (const std::string command : kCommands) {
    std::istringstream help(skim(command + " --help").output);
    int lines = 0;
    for (std::string line; std::getline(help, line); ++lines) EXPECT_LE(line.size(), 100u) << command << ": " << line;
    EXPECT_GT(lines, 10) << command;
  }
}

/// Fault 143.
TEST(Help, VersionIsPrinted) {
  const Outcome outcome = skim("--version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "skim " SKIM_TEST_VERSION "\n");
}

TEST(Completion, OffersTheCommands) {
  EXPECT_EQ(completions(""), (std::set<std::string>{"run", "verify", "info", "bench", "soak"}));
  EXPECT_EQ(completions("so"), (std::set<std::string>{"soak"}));
}

TEST(Completion, OffersTheOptionsThatHelpShows) {
  for (const std::string command : kCommands) {
    const std::set<std::string> options = options_of(command);
    EXPECT_TRUE(options.contains("--help"));
    EXPECT_EQ(completions(command + " -"), options) << command;
  }
}

TEST(Completion, OffersValues) {
  EXPECT_TRUE(completions("run --kernels ").contains("reference"));
  EXPECT_EQ(completions("bench --layers 2 --compare port"), (std::set<std::string>{"portable"}));
  EXPECT_EQ(completions("bench --mode "), (std::set<std::string>{"decode", "prefill"}));
  EXPECT_TRUE(completions("run --model synthetic:v").contains("v41-flash"));
  EXPECT_TRUE(completions("info ").contains("synthetic:v32"));
  EXPECT_EQ(completions("verify "), std::set<std::string>());  // files, which bash offers itself
}

TEST(ManPage, HasEveryCommandAndOption) {
  const std::string page = output_of(SKIM_MAN_PAGE);
  EXPECT_TRUE(page.starts_with(".TH SKIM 1 "));
  for (const std::string command : kCommands) {
    std::string heading = ".SH SKIM " + command;
    for (char& c : heading) c = static_cast<char>(std::toupper(c));
    if (command.empty()) heading = ".SH DESCRIPTION";
    EXPECT_NE(page.find(heading + "\n"), std::string::npos) << heading;
    for (std::string option : options_of(command)) {
      for (std::size_t at = 0; (at = option.find('-', at)) != std::string::npos; at += 2) option.insert(at, "\\");
      EXPECT_NE(page.find(option), std::string::npos) << option;
    }
  }
}

/// `skim <command> <arguments>` as a document shows it.
struct ShownCall {
  std::string command, arguments;
};

std::string_view leading_letters(std::string_view text) {
  return text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
}

/// Calls at the beginning of an indented line or of a quotation, up to its end, a comment or a pipe.
std::vector<ShownCall> calls_in(std::string_view line) {
  std::vector<ShownCall> calls;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const bool begins_block = at == 0 && line.starts_with("    ");
    if (!begins_block && line[at] != '`') continue;
    std::string_view text = line.substr(begins_block ? 4 : at + 1);
    if (text.starts_with("build/release/")) text.remove_prefix(std::string_view("build/release/").size());
    if (!text.starts_with("skim ")) continue;
    text.remove_prefix(5);
    const std::string_view command = leading_letters(text);
    if (command.empty()) continue;
    text.remove_prefix(command.size());
    if (!text.starts_with(' ')) text = {};
    calls.push_back({std::string(command), std::string(text.substr(0, text.find_first_of("`#|")))});
  }
  return calls;
}

std::vector<std::string> long_options(const std::string& arguments) {
  std::vector<std::string> options;
  for (std::size_t at = 0; (at = arguments.find("--", at)) != std::string::npos;) {
    const std::size_t end = arguments.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
    options.push_back(arguments.substr(at, end == std::string::npos ? end : end - at));
    at += options.back().size();
  }
  return options;
}

/// Calls that documents show, as blocks ("    skim run --model DIR") or in a sentence ("`skim run --model DIR`"), must
/// not name options that do not exist.
TEST(Documents, NameOptionsThatHelpShows) {
  std::map<std::string, std::set<std::string>> options;
  for (const std::string command : kCommands) options[command] = options_of(command);
  std::vector<fs::path> pages = {SKIM_SOURCE "/README.md", SKIM_SOURCE "/CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(SKIM_SOURCE "/docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  int calls = 0;
  for (const fs::path& page : pages) {
    std::ifstream file(page);
    for (std::string line; std::getline(file, line);) {
      for (const ShownCall& call : calls_in(line)) {
        ++calls;
        ASSERT_TRUE(options.contains(call.command)) << page << ": " << line;
        for (const std::string& option : long_options(call.arguments)) {
          EXPECT_TRUE(options[call.command].contains(option)) << page << ": " << line;
        }
      }
    }
  }
  EXPECT_GT(calls, 30);
}

}  // namespace
}  // namespace skim

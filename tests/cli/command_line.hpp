// The command line as a person or a script meets it: how to run it, and what to expect of its errors.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cases.hpp"

namespace skim {

namespace fs = std::filesystem;

struct Outcome {
  int status;
  std::string output;  ///< Standard output and error.
};

Outcome skim(const std::string& arguments, const std::string& environment = "");

class CommandLine : public testing::Test {
 protected:
  CommandLine();
  ~CommandLine() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// A case by the name of its file.
  static std::string recording(const std::string& file) { return test::case_path(fs::path(file).stem()); }

  /// What `skim run` with these arguments computes, as bytes by layer.
  std::map<std::string, std::vector<std::byte>> outputs(const std::string& arguments) const;

  /// A failure says what is wrong on one line.
  static void expect_error(int status, const std::string& arguments, const std::string& words);

 private:
  fs::path folder_;
};

}  // namespace skim

// A line on the terminal that says how far a long command has come.
#pragma once

#include <chrono>
#include <string>

namespace skim::cli {

/// Writes to standard error, only if that is a terminal, only once a second has passed, and wipes the line at the end.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(const std::string& text);
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace skim::cli

#include "progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

namespace skim::cli {

using namespace std::chrono_literals;

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0), start_(std::chrono::steady_clock::now()) {}

void ProgressLine::update(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - start_ < 1s || now - last_ < 100ms) return;
  fmt::print(stderr, "\r\033[K{} ({} s)", text, std::chrono::duration_cast<std::chrono::seconds>(now - start_).count());
  std::fflush(stderr);
  shown_ = true;
  last_ = now;
}

void ProgressLine::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace skim::cli

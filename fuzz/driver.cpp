#include "driver.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "allocations.hpp"
#include "mutate.hpp"
#include "skim/error.hpp"

// Present in sanitizer builds only.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the sanitizers chose the name.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

namespace fs = std::filesystem;

constexpr unsigned kMaxSeconds = 10;  // Per input.
constexpr std::size_t kFreeBytes = 64 << 20;
constexpr std::size_t kBytesPerInputByte = 64;

struct Options {
  double seconds = 3;
  std::uint64_t inputs = UINT64_MAX;  ///< Mutated ones; the corpus itself comes on top.
  std::uint64_t seed = 1;
  std::vector<fs::path> corpus;
};

/// What a signal handler needs to report a failure.
struct Run {
  const char* name = "";
  std::uint64_t seed = 0;
  std::uint64_t count = 0;
  std::span<const std::byte> input;  ///< Empty data pointer: no input is being read.
};
Run run;

/// Text of limited length, built without allocating: usable in a signal handler.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const std::size_t part = std::min(text.size(), text_.size() - 1 - size_);
    std::memcpy(text_.data() + size_, text.data(), part);
    size_ += part;
    return *this;
  }
  Line& operator<<(std::uint64_t number) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return *this << std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data()));
  }
  const char* c_str() const { return text_.data(); }
  void print(int fd) const { write_all(fd, text_.data(), size_); }

  static void write_all(int fd, const void* data, std::size_t size) {
    while (size > 0) {
      const ssize_t written = ::write(fd, data, size);
      if (written <= 0) return;
      data = static_cast<const char*>(data) + written;
      size -= static_cast<std::size_t>(written);
    }
  }

 private:
  std::array<char, 512> text_{};
  std::size_t size_ = 0;
};

void print_summary(std::uint64_t failures) {
  Line line;
  line << run.name << ": " << run.count << " inputs, " << failures << " failures, seed " << run.seed << "\n";
  line.print(STDOUT_FILENO);
}

/// Saves the input being read and says what happened. Async-signal-safe.
void report(std::string_view what) {
  const std::span<const std::byte> input = run.input;
  run.input = {};
  if (input.data() == nullptr) return;
  Line path;
  path << run.name << "-seed" << run.seed << "-input" << run.count << ".bin";
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0) {
    Line::write_all(fd, input.data(), input.size());
    ::close(fd);
  }
  Line line;
  line << run.name << ": " << what << " on input " << run.count << " (seed " << run.seed << "), saved as "
       << path.c_str() << "; replay with --inputs 0 " << path.c_str() << "\n";
  line.print(STDERR_FILENO);
  print_summary(1);
}

[[noreturn]] void die(std::string_view what) {
  report(what);
  ::_exit(1);
}

void on_signal(int signal) {
  Line what;
  if (signal == SIGALRM) {
    what << "more than " << kMaxSeconds << " seconds";
  } else {
    what << "signal " << static_cast<std::uint64_t>(signal);
  }
  die(what.c_str());
}

void install_handlers() {
  static std::array<std::byte, 64 << 10> stack;  // Of its own, for inputs that use up the real one.
  const stack_t alternative{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  std::vector<int> signals = {SIGALRM, SIGABRT};
  if (__sanitizer_set_death_callback != nullptr) {
    // A sanitizer reports the rest itself, with a stack trace.
    __sanitizer_set_death_callback([] { report("sanitizer report"); });
  } else {
    signals.insert(signals.end(), {SIGSEGV, SIGBUS, SIGFPE, SIGILL});
  }
  for (const int signal : signals) ::sigaction(signal, &action, nullptr);
}

void run_one(const std::string& text) {
  // A copy of exactly this size, so that AddressSanitizer sees a read behind its end.
  const auto copy = std::make_unique<std::byte[]>(text.size());
  std::memcpy(copy.get(), text.data(), text.size());
  run.input = {copy.get(), text.size()};
  ++run.count;
  fuzz::limit_allocations(kFreeBytes + kBytesPerInputByte * text.size(), [] { die("too much memory allocated"); });
  ::alarm(kMaxSeconds);
  try {
    fuzz_one(run.input);
  } catch (const skim::Error&) {
  } catch (const std::exception& error) {
    die((Line() << "exception: " << error.what()).c_str());
  } catch (...) {
    die("exception of unknown type");
  }
  ::alarm(0);
  fuzz::lift_allocation_limit();
  run.input = {};
}

std::vector<std::string> read_corpus(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());  // The same inputs for the same seed on every machine.
  std::vector<std::string> corpus;
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    if (!stream) throw std::runtime_error(file.string() + ": cannot read");
  }
  return corpus;
}

std::optional<Options> parse_arguments(std::span<char*> arguments) {
  Options options;
  const auto parse = [](std::string_view text, auto& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  bool seconds_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (!argument.starts_with("--")) {
      options.corpus.emplace_back(argument);
      continue;
    }
    if (++i == arguments.size()) return std::nullopt;
    bool good = false;
    if (argument == "--seconds") seconds_given = good = parse(arguments[i], options.seconds);
    if (argument == "--inputs") good = parse(arguments[i], options.inputs);
    if (argument == "--seed") good = parse(arguments[i], options.seed);
    if (!good) return std::nullopt;
  }
  if (options.inputs != UINT64_MAX && !seconds_given) options.seconds = 1e9;
  if (options.corpus.empty()) return std::nullopt;
  return options;
}

void fuzz_corpus(const std::vector<std::string>& corpus, const Options& options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (const std::string& text : corpus) run_one(text);
  std::mt19937_64 random(options.seed);
  for (std::uint64_t i = 0; i < options.inputs; ++i) {
    if (std::chrono::duration<double>(Clock::now() - start).count() >= options.seconds) break;
    std::string text = fuzz::mutated(corpus, random);
    if (random() % 2 == 0) repair(text);
    run_one(text);
  }
}

}  // namespace

// UndefinedBehaviorSanitizer calls this before it ends the process; next to AddressSanitizer it has no death callback.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" void __ubsan_on_report() { report("undefined behavior"); }

int main(int argc, char** argv) {
  const std::string name = fs::path(argc > 0 ? argv[0] : "fuzz").filename();
  run.name = name.c_str();
  try {
    const std::optional<Options> options = parse_arguments(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
    if (!options) {
      std::fprintf(stderr, "usage: %s [--seconds S] [--inputs N] [--seed X] CORPUS_FILE_OR_DIR...\n", run.name);
      return 2;
    }
    run.seed = options->seed;
    const std::vector<std::string> corpus = read_corpus(options->corpus);
    if (corpus.empty()) {
      std::fprintf(stderr, "%s: the corpus holds no file\n", run.name);
      return 2;
    }
    install_handlers();
    fuzz_corpus(corpus, *options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", run.name, error.what());
    return 2;
  }
  print_summary(0);
  return 0;
}

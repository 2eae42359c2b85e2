// The command line as a person or a script meets it: exit codes, one-line errors, files that come out.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "skim/safetensors.hpp"

namespace skim {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int status;
  std::string output;  ///< Standard output and error.
};

Outcome skim(const std::string& arguments, const std::string& environment = "") {
  const std::string command = environment + " " + SKIM_COMMAND + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome{-1, ""};
  std::array<char, 4096> buffer;
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

class CommandLine : public testing::Test {
 protected:
  CommandLine() : folder_(fs::temp_directory_path() / ("skim-cli-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~CommandLine() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string recording(const std::string& name) { return std::string(SKIM_TEST_CASES) + "/" + name; }

  /// A failure says what is wrong on one line.
  static void expect_error(int status, const std::string& arguments, const std::string& words) {
    const Outcome outcome = skim(arguments);
    EXPECT_EQ(outcome.status, status) << arguments << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find(words), std::string::npos) << arguments << "\n" << outcome.output;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
    EXPECT_EQ(outcome.output.rfind("skim: ", 0), 0u) << outcome.output;
  }

 private:
  fs::path folder_;
};

TEST_F(CommandLine, HelpNamesEveryCommandAndOption) {
  const auto expect_words = [](const std::string& arguments, const std::vector<std::string>& words) {
    const Outcome outcome = skim(arguments);
    EXPECT_EQ(outcome.status, 0);
    for (const std::string& word : words) EXPECT_NE(outcome.output.find(word), std::string::npos) << word;
  };
  expect_words("--help", {"run", "verify", "info", "Exit status", "SKIM_KERNELS"});
  expect_words("run --help", {"--model", "--layers", "--tokens", "--decode", "--input", "--output", "--threads",
                              "--kernels", "--json", "synthetic:v41-flash", "Example"});
  expect_words("verify --help", {"FILE", "--kernels", "--tolerance", "--model", "Exit status 0 only if"});
  expect_words("info --help", {"MODEL", "problems"});
}

TEST_F(CommandLine, WrongUsageExitsWithTwo) {
  expect_error(2, "", "run, verify, info");
  expect_error(2, "bogus", "bogus");
  expect_error(2, "run", "--model is required");
  expect_error(2, "run --model synthetic:v41-tiny --tokens -3", "--tokens");
  expect_error(2, "run --model synthetic:v41-tiny --layers a", "--layers");
  expect_error(2, "run --model synthetic:v41-tiny --threads 0", "--threads");
  expect_error(2, "verify", "FILE");
  expect_error(2, "verify --tolerance -1 x", "--tolerance");
  expect_error(2, "verify --tolerance nan x", "--tolerance");
}

TEST_F(CommandLine, BadInputExitsWithOne) {
  expect_error(1, "run --model " + path("nothing"), "no such file or folder");
  expect_error(1, "run --model synthetic:v42", "v41-flash, v41-tiny");
  expect_error(1, "run --model synthetic:v41-tiny --layers 3", "layer 3 needs layer 2");
  expect_error(1, "run --model synthetic:v41-tiny --layers 0,99", "layer 99 does not exist");
  expect_error(1, "run --model synthetic:v41-tiny --kernels fast", "portable, reference");
  expect_error(1, "run --model synthetic:v41-tiny --tokens 0", "at least one token");
  expect_error(1, "run --model synthetic:v41-tiny --output " + path("no/such/folder.safetensors"), "does not exist");
  expect_error(1, "verify " + path("nothing"), "cannot open");
  expect_error(1, "info " + path("nothing"), "no such file or folder");
}

/// A rename would turn a device or a pipe into a file.
TEST_F(CommandLine, OutputReplacesNothingButFiles) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(1, "run --model synthetic:v41-tiny --layers 0 --tokens 2 --output " + path("pipe"),
               "not a regular file");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  fs::create_symlink(path("target.safetensors"), path("link.safetensors"));
  const std::string run = "run --model synthetic:v41-tiny --layers 0 --tokens 2 --output " + path("link.safetensors");
  EXPECT_EQ(skim(run).status, 0);
  EXPECT_TRUE(fs::is_symlink(path("link.safetensors")));
  EXPECT_TRUE(fs::is_regular_file(path("target.safetensors")));
}

TEST_F(CommandLine, VerifyGoesOnAfterABadFile) {
  const Outcome outcome = skim("verify " + path("nothing") + " " + recording("v41-tiny-bf16.safetensors"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("cannot open"), std::string::npos);
  EXPECT_NE(outcome.output.find("  passed"), std::string::npos) << outcome.output;
}

TEST_F(CommandLine, ATruncatedFileIsRefused) {
  fs::copy_file(recording("v41-tiny-bf16.safetensors"), path("cut.safetensors"));
  for (const std::uintmax_t size : {4'000'000, 100'000, 9, 3, 0}) {
    fs::resize_file(path("cut.safetensors"), size);
    expect_error(1, "verify " + path("cut.safetensors"), "cut.safetensors: ");
    expect_error(1, "info " + path("cut.safetensors"), "cut.safetensors: ");
  }
}

TEST_F(CommandLine, TheEnvironmentForcesAKernelSet) {
  const Outcome forced = skim("run --model synthetic:v41-tiny --tokens 3", "SKIM_KERNELS=reference");
  EXPECT_NE(forced.output.find("reference kernels"), std::string::npos);
  EXPECT_EQ(skim("run --model synthetic:v41-tiny --tokens 3", "SKIM_KERNELS=nonsense").status, 1);
}

TEST_F(CommandLine, VerifyReportsEveryKindAndTheResult) {
  const Outcome passed = skim("verify --kernels reference " + recording("v41-tiny-bf16.safetensors") + " " +
                              recording("v41-tiny-fp8.safetensors"));
  EXPECT_EQ(passed.status, 0) << passed.output;
  for (const char* kind : {"qr", "window_kv", "index_score", "candidates", "topk_idxs", "o_lora", "out", "passed"}) {
    EXPECT_NE(passed.output.find(kind), std::string::npos) << kind;
  }
  const Outcome failed = skim("verify --tolerance 1e-9 " + recording("v41-tiny-fp8.safetensors"));
  EXPECT_EQ(failed.status, 1);
  EXPECT_NE(failed.output.find("FAILED: call "), std::string::npos) << failed.output;
}

TEST_F(CommandLine, VerifyTakesWeightsFromAModel) {
  const std::string file = recording("v41-tiny-bf16.safetensors");
  EXPECT_EQ(skim("verify --model " + file + " " + file).status, 0);
  EXPECT_EQ(skim("verify --model " + recording("v41-tiny-fp8.safetensors") + " " + file).status, 1);
}

TEST_F(CommandLine, RunPrintsJson) {
  const Outcome outcome = skim("run --model synthetic:v41-tiny --layers 0,2,3 --tokens 9 --decode 2 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const nlohmann::json report = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(report.at("prefill_tokens"), 9);
  ASSERT_EQ(report.at("layers").size(), 3u);
  EXPECT_EQ(report.at("layers").at(1).at("role"), "full");
  EXPECT_EQ(report.at("layers").at(2).at("selected_last"), 5);  // 11 tokens at ratio 2
}

TEST_F(CommandLine, WhereDecodeBeginsDoesNotChangeTheOutput) {
  const std::string run = "run --model synthetic:v41-tiny --output ";
  ASSERT_EQ(skim(run + path("a.safetensors") + " --tokens 20").status, 0);
  ASSERT_EQ(skim(run + path("b.safetensors") + " --tokens 7 --decode 13").status, 0);
  const SafetensorsFile a = SafetensorsFile::open(path("a.safetensors"));
  const SafetensorsFile b = SafetensorsFile::open(path("b.safetensors"));
  ASSERT_EQ(a.tensors().size(), 7u);
  for (const TensorInfo& info : a.tensors()) {
    const Tensor x = a.tensor(info.name), y = b.tensor(info.name);
    EXPECT_EQ(x.shape, (std::vector<std::int64_t>{20, 128}));
    EXPECT_TRUE(std::equal(x.bytes.begin(), x.bytes.end(), y.bytes.begin(), y.bytes.end())) << info.name;
  }
}

TEST_F(CommandLine, RunReadsHiddenStatesFromAFile) {
  // An output of one run has the shape of an input of the next.
  ASSERT_EQ(skim("run --model synthetic:v41-tiny --layers 0 --tokens 12 --output " + path("x.safetensors")).status, 0);
  const SafetensorsFile file = SafetensorsFile::open(path("x.safetensors"));
  const Tensor x = file.tensor("layer.0.out");
  const TensorToWrite renamed[] = {{"x", x.dtype, x.shape, x.bytes}};
  write_safetensors(path("in.safetensors"), renamed, {});
  const std::string run = "run --model synthetic:v41-tiny --layers 1 --input " + path("in.safetensors");
  const Outcome all = skim(run + " --json");
  ASSERT_EQ(all.status, 0) << all.output;
  EXPECT_EQ(nlohmann::json::parse(all.output).at("prefill_tokens"), 12);
  EXPECT_EQ(skim(run + " --tokens 10 --decode 2").status, 0);
  expect_error(1, run.substr(0) + " --tokens 10 --decode 3", "12 rows, expected 10 to prefill and 3 to decode");
  expect_error(1, "run --model synthetic:v41-tiny --layers 1 --input " + path("x.safetensors"),
               "neither layer.1.x nor x");
}

TEST_F(CommandLine, InfoDescribesACheckpoint) {
  const Outcome flash = skim("info synthetic:v41-flash");
  EXPECT_EQ(flash.status, 0);
  for (const char* words : {"890 bytes per token", "candidate source", "reindex  ratio 1", "candidates of layer 20",
                            "mtp.2.attn.wq_a.weight", "at 1M"}) {
    EXPECT_NE(flash.output.find(words), std::string::npos) << words;
  }
  const Outcome plain = skim("info " + recording("v41-tiny-bf16.safetensors"));
  EXPECT_EQ(plain.status, 0) << plain.output;
}

}  // namespace
}  // namespace skim

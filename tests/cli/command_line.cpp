#include "command_line.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "skim/safetensors.hpp"

namespace skim {

Outcome skim(const std::string& arguments, const std::string& environment) {
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

CommandLine::CommandLine() : folder_(fs::temp_directory_path() / ("skim-cli-" + std::to_string(getpid()))) {
  fs::create_directories(folder_);
}

std::map<std::string, std::vector<std::byte>> CommandLine::outputs(const std::string& arguments) const {
  const Outcome outcome = skim("run --output " + path("out.safetensors") + " " + arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const SafetensorsFile file = SafetensorsFile::open(path("out.safetensors"));
  std::map<std::string, std::vector<std::byte>> layers;
  for (const TensorInfo& info : file.tensors()) {
    const Tensor out = file.tensor(info.name);
    layers[info.name + " " + out.shape_text()].assign(out.bytes.begin(), out.bytes.end());
  }
  return layers;
}

void CommandLine::expect_error(int status, const std::string& arguments, const std::string& words) {
  const Outcome outcome = skim(arguments);
  EXPECT_EQ(outcome.status, status) << arguments << "\n" << outcome.output;
  EXPECT_NE(outcome.output.find(words), std::string::npos) << arguments << "\n" << outcome.output;
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  EXPECT_EQ(outcome.output.rfind("skim: ", 0), 0u) << outcome.output;
}

}  // namespace skim

#include "output_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "skim/error.hpp"

namespace skim::cli {

void check_output(const std::string& output) {
  if (output.empty()) return;
  const std::filesystem::path path(output);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder)) {
    throw Error(ErrorCode::io, fmt::format("{}: its folder {} does not exist", output, folder.string()));
  }
  if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path)) {
    throw Error(ErrorCode::io, fmt::format("{}: exists and is not a regular file", output));
  }
}

void write_text(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream) throw Error(ErrorCode::io, fmt::format("{}: cannot be written", file));
}

}  // namespace skim::cli

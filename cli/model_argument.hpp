// The --model argument: a folder, a file, or synthetic:<name>.
#pragma once

#include <cstdint>
#include <string>

#include "skim/checkpoint.hpp"

namespace skim::cli {

/// Throws skim::Error.
Checkpoint open_model(const std::string& argument);

/// e.g. "890 B", "12.3 MiB"
std::string byte_text(double bytes);

inline constexpr const char* kModelHelp =
    "Folder with config.json and safetensors shards, one safetensors file with config.json beside it, a case file, or "
    "synthetic:v41-flash or synthetic:v32 (released shapes), synthetic:v41-tiny or synthetic:v32-tiny";

}  // namespace skim::cli

#include "model_argument.hpp"

#include <fmt/format.h>

namespace skim::cli {

Checkpoint open_model(const std::string& argument) {
  constexpr std::string_view synthetic = "synthetic:";
  if (argument.starts_with(synthetic)) {
    return Checkpoint::synthetic(named_config(argument.substr(synthetic.size())));
  }
  return Checkpoint::open(argument);
}

std::string byte_text(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

}  // namespace skim::cli

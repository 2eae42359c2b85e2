// parse_config on any text: an accepted configuration is valid.
#include <stdexcept>
#include <string_view>

#include "driver.hpp"
#include "skim/config.hpp"
#include "skim/error.hpp"

namespace {

void require_valid(const skim::Config& config) {
  try {
    skim::validate(config);
  } catch (const skim::Error& error) {
    throw std::logic_error(std::string("parse_config accepted what validate refuses: ") + error.what());
  }
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  require_valid(skim::parse_config(text, "input"));
}

void repair(std::string&) {}

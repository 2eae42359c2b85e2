// The operations of a soak.
#pragma once

#include <span>
#include <string_view>

#include "soak/table.hpp"

namespace skim::cli {

struct Operation {
  std::string_view name;
  int weight;  ///< How often it is chosen, relative to the others.
  void (*run)(SoakTable& table);
};

std::span<const Operation> operations();

/// Draws an operation that makes sense now, does it and counts it.
void run_any(SoakTable& table);

}  // namespace skim::cli

// Random operations on caches, each checked against what is computed again from nothing.
#pragma once

#include <cstdint>
#include <functional>

#include "skim/model.hpp"
#include "soak/report.hpp"

namespace skim::cli {

struct SoakOptions {
  std::int64_t operations = 2000;
  double seconds = 0;  ///< If more than 0: until they have passed, whatever `operations` says.
  std::uint64_t seed = 0;
  int threads = 1;  ///< Most threads of a forward call.
  std::function<void(std::int64_t done)> progress = {};
};

/// What differs is reported, never thrown. The same options give the same operations.
SoakReport soak(const Model& model, const SoakOptions& options);

}  // namespace skim::cli

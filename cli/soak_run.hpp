// Random operations on caches, each checked against what is computed again from nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "skim/model.hpp"

namespace skim::cli {

struct SoakOptions {
  std::int64_t operations = 2000;
  double seconds = 0;  ///< If more than 0: until they have passed, whatever `operations` says.
  std::uint64_t seed = 0;
  int threads = 1;  ///< Most threads of a forward call.
  std::function<void(std::int64_t done)> progress = {};
};

struct SoakReport {
  std::map<std::string_view, std::int64_t> operations;  ///< By kind.
  std::int64_t caches = 0;                              ///< Made one after the other, with options of their own.
  std::int64_t checks = 0;                              ///< Sequences computed again.
  std::int64_t checked_tokens = 0;
  std::int64_t refusals = 0;  ///< Calls that had to fail and did.
  std::int64_t largest_bytes = 0;
  double seconds = 0;
  std::string difference;           ///< The first; empty if there is none. It ends the run.
  std::int64_t last_operation = 0;  ///< Number of the last operation.
  std::string_view kind;            ///< Of the last operation.
  std::string doing;                ///< What it was about.
};

/// What differs is reported, never thrown. The same options give the same operations.
SoakReport soak(const Model& model, const SoakOptions& options);

}  // namespace skim::cli

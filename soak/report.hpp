// What a soak did and found.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace skim::cli {

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

}  // namespace skim::cli

// Replaying recordings of another implementation, and saying where this one differs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "skim/checkpoint.hpp"

namespace skim {

struct VerifyOptions {
  std::string kernels = {};                ///< As in ModelOptions.
  std::optional<double> tolerance = {};    ///< Allowance for every numeric tensor instead of the standard ones.
  std::optional<Checkpoint> weights = {};  ///< Weights to use instead of those in (or named by) the file.
  int threads = 0;                         ///< As in CacheOptions.
  /// Called now and then with what is being done, e.g. "call 3 of 19, layer 2".
  std::function<void(const std::string& doing)> progress = {};
};

/// Result for one kind of tensor ("qr", "out", "topk_idxs", ...).
struct VerifyKind {
  std::string name;
  std::int64_t compared = 0;  ///< Tensors (or rows of a selection) compared.
  double worst = 0;           ///< Largest error ||got - want|| / ||want||; for selections, largest distance from the
                              ///< cut-off score that an exchanged position needed, relative to the largest score.
  double allowed = 0;
  std::string where;                ///< Of the worst, e.g. "call 3 layer 2".
  std::int64_t exchanged_rows = 0;  ///< Selections only: rows that differ from the recording.
  bool passed = true;
};

struct VerifyReport {
  std::string file;                  ///< Path as given.
  std::string model;                 ///< e.g. "deepseek_v41".
  std::string kernels;               ///< Kernel set that ran.
  std::vector<VerifyKind> kinds;     ///< In order of computation.
  std::vector<std::string> ignored;  ///< Tensors of the file that have no known name, or belong to no call or layer.
  std::string first_failure;         ///< Call, layer, tensor and how far off; empty if everything holds.
  bool passed() const { return first_failure.empty(); }
};

/// Replays a case file (docs/cases.md) and judges every tensor recorded in it. Throws
/// Error{io, bad_file, bad_config} for a file that cannot be replayed, and what Model throws.
VerifyReport verify(const std::filesystem::path& file, const VerifyOptions& options = {});

/// A report as the table that `skim verify` prints, each line ended.
std::string report_text(const VerifyReport& report);

}  // namespace skim

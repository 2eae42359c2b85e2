// Replaying recordings of another implementation, and saying where this one differs and which mistake would explain it.
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
  std::string kernels = {};  ///< As in ModelOptions.
  /// Allowance for every numeric tensor instead of the standard ones; a row may then be four times as far off, if that
  /// is more than the standard bound on rows.
  std::optional<double> tolerance = {};
  std::optional<Checkpoint> weights = {};  ///< Weights to use instead of those in (or named by) the file.
  int threads = 0;                         ///< As in CacheOptions.
  bool diagnose = true;                    ///< Look for the mistake behind the first failing tensor.
  bool keep_failing = false;               ///< Keep both sides of failing tensors (VerifyTensor::got, want).
  /// Called now and then with what is being done, e.g. "call 3 of 19, layer 2".
  std::function<void(const std::string& doing)> progress = {};
};

/// A place in a recording; -1 where it does not apply.
struct VerifyPlace {
  std::int64_t call = -1;
  int layer = -1;
  int sequence = -1;
  std::int64_t row = -1;  ///< Token of the call, group that it closes, or slot of the window ring.
  int head = -1;

  /// e.g. "call 3 layer 2 sequence 0 row 5 head 7"; empty if nothing applies.
  std::string text() const;
  friend bool operator==(const VerifyPlace&, const VerifyPlace&) = default;
};

/// Result for one kind of tensor ("qr", "index_q*index_weights", "topk_idxs", ...), of the whole file or of one layer.
struct VerifyKind {
  std::string name;
  int layer = -1;             ///< -1: all layers.
  bool selection = false;     ///< Of positions or candidate blocks.
  std::int64_t compared = 0;  ///< Tensors (or rows of a selection) compared.
  /// Largest error ||got - want|| / ||want|| of a tensor, or of all short calls together; of selections the largest
  /// distance from the cut-off score that an exchanged position needed, relative to the largest score. Infinite if the
  /// two cannot be compared.
  double worst = 0;
  double allowed = 0;
  std::string where;  ///< Of the worst: a place, or "16 calls of one token together".
  /// Numeric tensors only: largest ||got - want|| / max(||want||, M / 10) of a row, or of a head of a row, M being the
  /// root mean square norm of the rows of its tensor.
  double worst_row = 0;
  double row_allowed = 0;
  VerifyPlace worst_row_place;
  std::optional<VerifyPlace> first_beyond;  ///< First place, in order of computation, beyond either bound.
  std::int64_t exchanged_rows = 0;          ///< Selections only: rows that differ from the recording.
  bool passed = true;
};

/// Both sides of a row.
struct VerifyRow {
  VerifyPlace place;
  std::vector<float> got, want;
};

/// A tensor of one call and layer that is beyond its bounds, for pages and files.
struct VerifyTensor {
  std::string name;
  VerifyPlace place;  ///< Call and layer.
  double error = 0;   ///< ||got - want|| / ||want||
  /// Of each row and head: [batch * rows, heads], relative as in VerifyKind::worst_row.
  std::vector<float> row_errors;
  std::int64_t batch = 0, rows = 0, heads = 1;
  std::vector<std::int64_t> row_numbers;  ///< [rows]: what VerifyPlace::row says of each.
  VerifyRow worst;
  std::vector<float> got, want;  ///< [batch, rows, heads, width]; only with VerifyOptions::keep_failing.
};

/// A mistake that might be behind the first failing tensor.
struct VerifyHypothesis {
  std::string name;     ///< Short and stable, e.g. "rotation-halves".
  std::string mistake;  ///< One clause, e.g. "elements i and i+32 are paired instead of 2i and 2i+1".
  /// Largest error that is left of the failing tensors of the recording, computed again under this mistake.
  double error = 0;
  bool fits = false;  ///< All of them hold under this mistake.
};

struct VerifyReport {
  std::string file;                ///< Path as given.
  std::string model;               ///< e.g. "deepseek_v41".
  std::string kernels;             ///< Kernel set that ran.
  std::vector<VerifyKind> kinds;   ///< In order of computation.
  std::vector<VerifyKind> layers;  ///< The same of each layer by itself; layers ascending.
  std::vector<std::string>
      ignored;                     ///< Tensors of the file that belong to no replayed call or layer, or begin with x_.
  std::vector<std::string> empty;  ///< Tensors without rows, which were not compared.
  std::string first_failure;       ///< Call, layer, tensor and how far off; empty if everything holds.

  // Of the first failing tensor: first by call, then by order of computation.
  VerifyPlace place;                  ///< As exact as it is known.
  std::string tensor;                 ///< Its name.
  double error = 0;                   ///< ||got - want|| / ||want||, or the distance of a selection.
  std::vector<std::string> shape;     ///< Sentences: how much of it is wrong, and where.
  std::vector<VerifyPlace> places;    ///< Of its worst rows, worst first.
  std::vector<VerifyTensor> failing;  ///< Tensors beyond their bounds, in order of computation; the first 64.
  /// Mistakes that fit, best first, then the next best that does not.
  std::vector<VerifyHypothesis> hypotheses;
  std::string advice;  ///< What to record to tell mistakes apart that fit equally well; may be empty.

  bool passed() const { return first_failure.empty(); }
};

/// The report as a table for people: a line for each kind, then the verdict. Names of ignored tensors are those of the
/// file, whatever they hold.
std::string report_text(const VerifyReport& report);
/// Everything in the report but both sides of whole tensors, as one JSON object.
std::string report_json(const VerifyReport& report);
/// The report as one HTML page that needs nothing else.
std::string report_html(const VerifyReport& report);
/// Writes both sides of the failing tensors, float32: "got.call.3.layer.2.o" and "want.call.3.layer.2.o". Needs a
/// report made with keep_failing. Throws Error{io}.
void write_failing(const VerifyReport& report, const std::filesystem::path& file);

/// Replays a case file (docs/cases.md) and judges every tensor recorded in it. Throws
/// Error{io, bad_file, bad_config} for a file that cannot be replayed, Error{invalid_argument} for a tolerance below 0,
/// and what Model throws.
VerifyReport verify(const std::filesystem::path& file, const VerifyOptions& options = {});

}  // namespace skim

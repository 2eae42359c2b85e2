// Watches one layer of one call, compares what it sees with the recording, and puts recorded selections in place.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skim/trace.hpp"
#include "verify/case_file.hpp"
#include "verify/compare.hpp"
#include "verify/report_builder.hpp"

namespace skim {

/// (sequence, row of the call)
using QueryRow = std::pair<int, std::int64_t>;

/// What layers of one call need to know of earlier ones, by index source.
struct CallState {
  std::map<int, std::map<QueryRow, std::vector<std::int32_t>>> selections;  ///< As computed, before replacement.
  std::map<int, std::map<QueryRow, std::vector<float>>> scores;             ///< For rows somebody is judged by.
};

/// The window of every sequence of a layer, as the published decode step keeps it: [sequences][slots, head_dim], with
/// only as many slots as the longest sequence of the file fills.
using WindowRings = std::vector<std::vector<bf16>>;

class LayerReplay final : public Trace {
 public:
  /// `progress` may be empty.
  LayerReplay(const CaseFile& file, std::int64_t call, int layer, WindowRings& rings, CallState& state,
              const std::function<void(const std::string&)>& progress);

  bool wants(std::string_view name) override;
  void rows(const TraceRows& event) override;
  void scores(const TraceScores& event) override;
  void candidates(const TraceSelection& event) override;
  void selection(const TraceSelection& event) override;
  void progress(int layer, std::int64_t done, std::int64_t total) override;

  /// After the layer has run: everything judged goes into the report.
  void judge(ReportBuilder& report);

 private:
  struct Numeric {
    RecordedTensor recorded;
    ErrorSum error;
    std::int64_t rows_seen = 0;
    RowMeaning meaning = RowMeaning::token;
  };

  /// A row of topk_idxs taken apart.
  struct RecordedSelection {
    std::vector<std::int64_t> slots;      ///< Of the window, ascending.
    std::vector<std::int32_t> positions;  ///< Compressed, ascending.
  };

  void load_numeric();
  void load_selections();
  std::int64_t call_row(std::int64_t position) const { return position - call_.start_pos; }
  std::string place() const;
  std::string place(const QueryRow& query) const;
  /// Index of `row` among the recorded rows, or -1.
  static std::int64_t find_row(const RecordedTensor& recorded, std::int64_t row);
  void update_ring(const TraceRows& event);
  void compare_ring();
  bool keeps_scores(std::int64_t row) const;
  /// Recorded scores of a query if there are any, otherwise those of this run; masked by recorded candidates.
  std::vector<float> judging_scores(const QueryRow& query, std::int64_t visible) const;
  RecordedSelection recorded_selection(const RecordedTensor& topk, const QueryRow& query, std::int64_t index) const;
  RecordedSelection split_entries(const RecordedTensor& topk, const std::vector<std::int64_t>& entries) const;
  RecordedSelection visible_entries(const QueryRow& query, const std::vector<std::int64_t>& entries) const;
  /// Blocks whose visible positions are all true; nothing if a block is neither all true nor all false.
  std::optional<std::vector<std::int32_t>> recorded_blocks(const QueryRow& query, std::int64_t index,
                                                           std::int64_t visible) const;
  bool window_fits(const QueryRow& query, const RecordedSelection& recorded) const;
  /// Whether it is known which positions the query could choose from.
  bool bounds_known(const QueryRow& query, std::int64_t visible) const;
  /// Leaves a row out of which it is not known what it could choose from.
  void judge_selection(const RecordedSelection& recorded, const QueryRow& query, std::int64_t visible,
                       const std::vector<std::int32_t>& computed);
  void judge_reused(const QueryRow& query, std::int64_t index);

  const CaseFile& file_;
  std::int64_t call_number_;
  const CaseCall& call_;
  const ModelShape& shape_;
  int layer_;
  LayerRole role_;
  WindowRings& rings_;
  CallState& state_;
  const std::function<void(const std::string&)>& progress_;
  std::map<std::string, Numeric, std::less<>> numeric_;
  std::optional<RecordedTensor> ring_, score_, candidates_, source_candidates_;
  std::optional<RecordedTensor> topk_;         ///< Of this layer.
  std::optional<RecordedTensor> source_topk_;  ///< Of the layer whose selection this one reuses.
  std::optional<RecordedTensor> reused_topk_;  ///< For a source without: of the first layer that reuses its selection.
  std::map<QueryRow, SelectionDifference> judged_candidates_, judged_topk_;
};

}  // namespace skim

// Candidate blocks and selections of one layer and call: judged as they are made, and replaced by the recorded ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "skim/trace.hpp"
#include "verify/case_file.hpp"
#include "verify/compare.hpp"
#include "verify/recorded_selection.hpp"

namespace skim {

using SelectionVerdicts = std::map<QueryRow, SelectionDifference>;

/// What layers of one call need to know of earlier ones: verdicts on selections they take over, by layer.
using ReusedVerdicts = std::map<int, SelectionVerdicts>;

class SelectionJudge {
 public:
  SelectionJudge(const CaseFile& file, std::int64_t call, int layer, ReusedVerdicts& reused);

  /// Index scores of the replay are needed, because somebody is judged by them.
  bool wants_scores() const;
  void scores(const TraceScores& event);
  void candidates(const TraceSelection& event);
  void selection(const TraceSelection& event);
  /// After the layer has run: rows of a layer that selects nothing itself.
  void finish();

  const SelectionVerdicts& candidate_verdicts() const { return candidate_verdicts_; }
  const SelectionVerdicts& selection_verdicts() const { return selection_verdicts_; }

 private:
  /// Selections recorded of a layer that takes over what this one selects.
  struct Reader {
    int layer;
    RecordedSelections recorded;
  };
  /// The recorded selection that is in force for a query, and who recorded it.
  struct InForce {
    RecordedSelection selection;
    int layer;
  };

  QueryRow query_of(std::int64_t position, int sequence) const { return {sequence, position - call_.start_pos}; }
  /// Recorded scores of a query if there are any, otherwise those of the replay.
  SelectionScores scores_of(const QueryRow& query, std::int64_t visible) const;
  /// Positions that the query could choose from; nothing if that is not known.
  std::optional<std::int64_t> choices(const QueryRow& query, std::int64_t visible) const;
  std::optional<InForce> in_force(const QueryRow& query) const;
  SelectionVerdicts& verdicts_of(int layer);
  void judge(const InForce& recorded, const QueryRow& query, const TraceSelection& event);
  void judge_readers(const InForce& recorded, const QueryRow& query);
  SelectionDifference judge_blocks(const std::vector<std::int32_t>& recorded, const QueryRow& query,
                                   std::int64_t visible, const TraceSelection& event) const;

  const CaseFile& file_;
  const CaseCall& call_;
  int layer_;
  LayerRole role_;
  ReusedVerdicts& reused_;
  RecordedSelections own_;
  std::vector<Reader> readers_;
  RecordedCandidates own_candidates_, bounds_;  ///< Those that this layer publishes, and those that bound it.
  std::optional<RecordedTensor> recorded_scores_;
  std::map<QueryRow, std::vector<float>> waiting_scores_;  ///< Of queries whose selection has not been seen yet.
  SelectionVerdicts candidate_verdicts_, selection_verdicts_;
};

}  // namespace skim

#include "verify/selection_judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace skim {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

SelectionDifference impossible(std::string fault) { return {true, kInfinite, std::move(fault)}; }

}  // namespace

SelectionJudge::SelectionJudge(const CaseFile& file, std::int64_t call, int layer, ReusedVerdicts& reused)
    : file_(file),
      call_(file.calls()[static_cast<std::size_t>(call)]),
      layer_(layer),
      role_(layer_role(file.config(), layer)),
      reused_(reused),
      own_(file, call, layer),
      own_candidates_(file, call, role_.is_candidate_source ? layer : -1),
      bounds_(file, call, role_.candidate_source) {
  if (!role_.selects()) return;
  recorded_scores_ = file.recorded(call, layer, "index_score");
  for (const int other : file.layers()) {
    if (other == layer || layer_role(file.config(), other).index_source != layer) continue;
    readers_.push_back({other, RecordedSelections(file, call, other)});
  }
}

bool SelectionJudge::wants_scores() const {
  return role_.selects() &&
         (own_.exists() || own_candidates_.exists() ||
          std::any_of(readers_.begin(), readers_.end(), [](const Reader& reader) { return reader.recorded.exists(); }));
}

void SelectionJudge::scores(const TraceScores& event) {
  const QueryRow query = query_of(event.position, event.sequence);
  if (!wants_scores() || (recorded_scores_ && recorded_scores_->find(query.second) >= 0)) return;
  waiting_scores_[query].assign(event.scores.begin(), event.scores.end());
}

SelectionScores SelectionJudge::scores_of(const QueryRow& query, std::int64_t visible) const {
  SelectionScores scores;
  if (const std::int64_t index = recorded_scores_ ? recorded_scores_->find(query.second) : -1; index >= 0) {
    scores.all = recorded_scores_->floats(query.first, index);
  } else if (const auto found = waiting_scores_.find(query); found != waiting_scores_.end()) {
    scores.all = found->second;
  }
  scores.all.resize(static_cast<std::size_t>(visible), kLowest);
  scores.allowed = scores.all;
  if (!bounds_.contains(query)) return scores;
  const std::vector<bool> mask = bounds_.mask(query, visible);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (!mask[i]) scores.allowed[i] = kLowest;
  }
  return scores;
}

std::optional<std::int64_t> SelectionJudge::choices(const QueryRow& query, std::int64_t visible) const {
  if (role_.candidate_source < 0) return visible;
  if (bounds_.contains(query)) {
    const std::vector<bool> mask = bounds_.mask(query, visible);
    return std::count(mask.begin(), mask.end(), true);
  }
  const ModelShape& shape = file_.shape();
  const std::int64_t most = std::int64_t{shape.candidate_block_size} * shape.candidate_topk_blocks;
  return visible <= most ? std::optional(visible) : std::nullopt;  // every block is a candidate, or who knows which
}

SelectionVerdicts& SelectionJudge::verdicts_of(int layer) {
  return layer == layer_ ? selection_verdicts_ : reused_[layer];
}

SelectionDifference SelectionJudge::judge_blocks(const std::vector<std::int32_t>& recorded, const QueryRow& query,
                                                 std::int64_t visible, const TraceSelection& event) const {
  const std::int64_t count = std::min<std::int64_t>(file_.shape().candidate_topk_blocks, event.limit);
  if (static_cast<std::int64_t>(recorded.size()) != count) {
    return impossible(fmt::format("keeps {} blocks, expected {}", recorded.size(), count));
  }
  if (count == 0) return {};
  if (recorded.back() != static_cast<std::int32_t>(event.limit) - 1) {
    return impossible("leaves the block of the newest position out");
  }
  const SelectionScores scores = scores_of(query, visible);
  const int size = file_.shape().candidate_block_size;
  const SelectionScores best{block_scores(scores.all, size), block_scores(scores.all, size)};
  const auto others = static_cast<std::size_t>(count - 1);
  return compare_selection(best, count - 1, std::span(event.chosen).first(std::min(others, event.chosen.size())),
                           std::span(recorded).first(others));
}

void SelectionJudge::candidates(const TraceSelection& event) {
  const QueryRow query = query_of(event.position, event.sequence);
  if (!own_candidates_.contains(query)) return;
  const std::int64_t visible = (event.position + 1) / role_.ratio;
  std::optional<std::vector<std::int32_t>> recorded = own_candidates_.blocks(query, visible);
  candidate_verdicts_[query] =
      recorded ? judge_blocks(*recorded, query, visible, event) : impossible("holds a part of a block");
  if (recorded && static_cast<int>(recorded->size()) <= file_.shape().candidate_topk_blocks) {
    event.chosen = std::move(*recorded);
  }
}

std::optional<SelectionJudge::InForce> SelectionJudge::in_force(const QueryRow& query) const {
  if (auto own = own_.find(query)) return InForce{std::move(*own), layer_};
  for (const Reader& reader : readers_) {
    if (auto recorded = reader.recorded.find(query)) return InForce{std::move(*recorded), reader.layer};
  }
  return {};
}

void SelectionJudge::judge(const InForce& recorded, const QueryRow& query, const TraceSelection& event) {
  const std::optional<std::int64_t> choices_of_query = choices(query, event.limit);
  if (!choices_of_query) return;
  const std::int64_t count = std::min<std::int64_t>(file_.shape().topk, *choices_of_query);
  verdicts_of(recorded.layer)[query] =
      compare_selection(scores_of(query, event.limit), count, event.chosen, recorded.selection.positions);
}

/// Whoever takes a selection over must have the one that is in force.
void SelectionJudge::judge_readers(const InForce& recorded, const QueryRow& query) {
  for (const Reader& reader : readers_) {
    if (reader.layer == recorded.layer) continue;
    const auto taken = reader.recorded.find(query);
    if (!taken) continue;
    const bool same = taken->positions == recorded.selection.positions;
    reused_[reader.layer][query] =
        same ? SelectionDifference{} : impossible(fmt::format("is not the selection of layer {}", recorded.layer));
  }
}

void SelectionJudge::selection(const TraceSelection& event) {
  const QueryRow query = query_of(event.position, event.sequence);
  const auto recorded = in_force(query);
  if (recorded) {
    judge(*recorded, query, event);
    judge_readers(*recorded, query);
    const std::vector<std::int32_t>& positions = recorded->selection.positions;
    const bool distinct = std::adjacent_find(positions.begin(), positions.end()) == positions.end();
    const bool usable = static_cast<int>(positions.size()) <= file_.shape().topk && distinct &&
                        (positions.empty() || positions.back() < event.limit);
    if (usable) event.chosen = positions;
  }
  waiting_scores_.erase(query);
}

void SelectionJudge::finish() {
  if (!own_.exists()) return;
  if (role_.ratio > 0 && !role_.selects()) selection_verdicts_ = std::move(reused_[layer_]);
  for (int sequence = 0; sequence < call_.batch; ++sequence) {
    for (const std::int64_t row : own_.rows()) {
      const QueryRow query{sequence, row};
      const auto recorded = own_.find(query);
      std::string fault = own_.window_fault(query, *recorded);
      if (role_.ratio == 0) {
        if (!recorded->positions.empty()) fault = "holds compressed positions, which a layer of ratio 0 has not";
        selection_verdicts_[query] = {};
      }
      if (!fault.empty()) selection_verdicts_[query] = impossible(std::move(fault));
    }
  }
}

}  // namespace skim

#include "verify/layer_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/bf16.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();
constexpr std::int64_t kNoPosition = std::int64_t{1} << 30;  // beyond what any query sees

std::vector<float> widen(const bf16* values, std::int64_t count) {
  std::vector<float> wide(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) wide[static_cast<std::size_t>(i)] = to_float(values[i]);
  return wide;
}

std::vector<float> widen_row(const TraceRows& event, std::int64_t i, std::int64_t width) {
  if (event.floats.data == nullptr) return widen(event.rows.row(i), width);
  return {event.floats.row(i), event.floats.row(i) + width};
}

bool ascending(const std::vector<std::int32_t>& list) {
  return std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end();
}

}  // namespace

LayerReplay::LayerReplay(const CaseFile& file, std::int64_t call, int layer, WindowRings& rings, CallState& state,
                         const std::function<void(const std::string&)>& progress)
    : file_(file),
      call_number_(call),
      call_(file.calls()[static_cast<std::size_t>(call)]),
      shape_(file.shape()),
      layer_(layer),
      role_(layer_role(file.config(), layer)),
      rings_(rings),
      state_(state),
      progress_(progress) {
  load_numeric();
  load_selections();
}

void LayerReplay::load_numeric() {
  const auto load = [&](std::string_view name, RowMeaning meaning, std::int64_t width) {
    if (auto recorded = file_.recorded(call_number_, layer_, name, meaning, width)) {
      numeric_.insert_or_assign(std::string(name), Numeric{std::move(*recorded), {}, 0, meaning});
    }
  };
  for (const RecordedKind& kind : file_.kinds()) {
    if (kind.use == RecordedUse::values) load(kind.name, kind.meaning, kind.width);
  }
  const RecordedKind* window = file_.find_kind(RecordedUse::window);
  if (window != nullptr && call_.start_pos == 0) {
    load(window->name, RowMeaning::last_token, window->width);
  } else if (window != nullptr) {
    ring_ = file_.recorded(call_number_, layer_, window->name, RowMeaning::slot, window->width);
  }
  const bool scores = role_.ratio > 0 && role_.index_source == layer_;
  load("index_score", RowMeaning::token, scores ? (call_.start_pos + call_.seqlen) / role_.ratio : -1);
  if (file_.find_kind(RecordedUse::candidates) != nullptr && !role_.is_candidate_source) {
    load("candidates", RowMeaning::token, -1);  // to be reported as out of place
  }
}

void LayerReplay::load_selections() {
  topk_ = file_.recorded(call_number_, layer_, "topk_idxs", RowMeaning::token, -1);
  if (role_.ratio == 0) return;
  const std::int64_t groups = (call_.start_pos + call_.seqlen) / role_.ratio;
  score_ = file_.recorded(call_number_, role_.index_source, "index_score", RowMeaning::token, groups);
  if (role_.is_candidate_source) {
    candidates_ = file_.recorded(call_number_, layer_, "candidates", RowMeaning::token, groups);
  }
  if (role_.index_source != layer_) {
    source_topk_ = file_.recorded(call_number_, role_.index_source, "topk_idxs", RowMeaning::token, -1);
  } else if (!topk_) {
    for (const int layer : file_.layers()) {
      if (reused_topk_ || layer == layer_ || layer_role(file_.config(), layer).index_source != layer_) continue;
      reused_topk_ = file_.recorded(call_number_, layer, "topk_idxs", RowMeaning::token, -1);
    }
  }
  const int bounded_by = layer_role(file_.config(), role_.index_source).candidate_source;
  if (bounded_by >= 0) {
    source_candidates_ = file_.recorded(call_number_, bounded_by, "candidates", RowMeaning::token, groups);
  }
}

std::string LayerReplay::place() const { return fmt::format("call {} layer {}", call_number_, layer_); }

std::string LayerReplay::place(const QueryRow& query) const {
  return fmt::format("{} sequence {} row {}", place(), query.first, query.second);
}

std::int64_t LayerReplay::find_row(const RecordedTensor& recorded, std::int64_t row) {
  const auto found = std::lower_bound(recorded.rows.begin(), recorded.rows.end(), row);
  return found != recorded.rows.end() && *found == row ? found - recorded.rows.begin() : -1;
}

bool LayerReplay::wants(std::string_view name) {
  if (name == "index_score") return role_.index_source == layer_;
  return name == "window_kv" || numeric_.find(name) != numeric_.end();
}

void LayerReplay::rows(const TraceRows& event) {
  if (event.name == "window_kv") update_ring(event);
  const auto found = numeric_.find(event.name);
  if (found == numeric_.end()) return;
  auto& [recorded, error, seen, meaning] = found->second;
  const bool groups = meaning == RowMeaning::group;
  const std::int64_t first = event.first - (groups ? call_.start_pos / std::max(1, role_.ratio) : call_.start_pos);
  const std::int64_t count = event.floats.data != nullptr ? event.floats.shape[0] : event.rows.shape[0];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = find_row(recorded, first + i);
    if (index < 0) continue;
    error.add(widen_row(event, i, recorded.width), recorded.floats(event.sequence, index));
    ++seen;
  }
}

void LayerReplay::update_ring(const TraceRows& event) {
  std::vector<bf16>& ring = rings_[static_cast<std::size_t>(event.sequence)];
  const std::int64_t width = event.rows.shape[1];
  for (std::int64_t i = 0; i < event.rows.shape[0]; ++i) {
    const std::int64_t slot = (event.first + i) % shape_.window;  // below the slots there are
    std::copy_n(event.rows.row(i), width, ring.begin() + slot * width);
  }
}

void LayerReplay::compare_ring() {
  if (!ring_) return;
  Numeric& numeric = numeric_["window_kv"];
  numeric.recorded = *ring_;
  for (int sequence = 0; sequence < call_.batch; ++sequence) {
    const std::vector<bf16>& ring = rings_[static_cast<std::size_t>(sequence)];
    const auto slots = static_cast<std::int64_t>(ring.size()) / ring_->width;
    const std::vector<bf16> empty(static_cast<std::size_t>(ring_->width), bf16{0});
    for (std::int64_t i = 0; i < ring_->row_count(); ++i) {
      const bf16* row = i < slots ? ring.data() + i * ring_->width : empty.data();
      numeric.error.add(widen(row, ring_->width), ring_->floats(sequence, i));
      ++numeric.rows_seen;
    }
  }
}

bool LayerReplay::keeps_scores(std::int64_t row) const {
  if (score_ && find_row(*score_, row) >= 0) return false;
  if (topk_ || candidates_) {
    return (topk_ && find_row(*topk_, row) >= 0) || (candidates_ && find_row(*candidates_, row) >= 0);
  }
  return std::any_of(file_.layers().begin(), file_.layers().end(), [&](int layer) {
    return layer_role(file_.config(), layer).index_source == layer_ && file_.has(call_number_, layer, "topk_idxs");
  });
}

void LayerReplay::scores(const TraceScores& event) {
  const std::int64_t row = call_row(event.position);
  const auto found = numeric_.find("index_score");
  if (found != numeric_.end()) {
    auto& [recorded, error, seen, meaning] = found->second;
    if (const std::int64_t index = find_row(recorded, row); index >= 0) {
      error.add(event.scores, recorded.floats(event.sequence, index));
      ++seen;
    }
  }
  if (keeps_scores(row)) {
    state_.scores[layer_][{event.sequence, row}].assign(event.scores.begin(), event.scores.end());
  }
}

std::vector<float> LayerReplay::judging_scores(const QueryRow& query, std::int64_t visible) const {
  std::vector<float> scores;
  if (const std::int64_t index = score_ ? find_row(*score_, query.second) : -1; index >= 0) {
    scores = score_->floats(query.first, index);
  } else if (const auto source = state_.scores.find(role_.index_source); source != state_.scores.end()) {
    if (const auto own = source->second.find(query); own != source->second.end()) scores = own->second;
  }
  scores.resize(static_cast<std::size_t>(visible), -std::numeric_limits<float>::infinity());
  if (const std::int64_t index = source_candidates_ ? find_row(*source_candidates_, query.second) : -1; index >= 0) {
    const std::vector<bool> allowed = source_candidates_->booleans(query.first, index);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (!allowed[i]) scores[i] = -std::numeric_limits<float>::infinity();
    }
  }
  return scores;
}

std::optional<std::vector<std::int32_t>> LayerReplay::recorded_blocks(const QueryRow& query, std::int64_t index,
                                                                      std::int64_t visible) const {
  const std::vector<bool> allowed = candidates_->booleans(query.first, index);
  const std::int64_t size = shape_.candidate_block_size;
  std::vector<std::int32_t> blocks;
  for (std::int64_t first = 0; first < visible; first += size) {
    const auto begin = allowed.begin() + first, end = allowed.begin() + std::min(first + size, visible);
    const auto inside = std::count(begin, end, true);
    if (inside != 0 && inside != end - begin) return {};
    if (inside != 0) blocks.push_back(static_cast<std::int32_t>(first / size));
  }
  return blocks;
}

void LayerReplay::candidates(const TraceSelection& event) {
  const QueryRow query{event.sequence, call_row(event.position)};
  const std::int64_t index = candidates_ ? find_row(*candidates_, query.second) : -1;
  if (index < 0) return;
  const std::int64_t visible = (event.position + 1) / role_.ratio;
  std::optional<std::vector<std::int32_t>> recorded = recorded_blocks(query, index, visible);
  const auto newest = static_cast<std::int32_t>(event.limit) - 1;
  SelectionDifference difference;
  if (!recorded || (event.limit > 0 && (recorded->empty() || recorded->back() != newest))) {
    difference = {true, kImpossible};  // half a block, or the newest block left out
  } else if (event.limit > 0) {
    const std::vector<float> best = block_scores(judging_scores(query, visible), shape_.candidate_block_size);
    const std::span<const std::int32_t> others(recorded->data(), recorded->size() - 1);
    difference = compare_selection(best, std::span(event.chosen).first(event.chosen.size() - 1), others);
  }
  judged_candidates_[query] = difference;
  if (recorded && static_cast<int>(recorded->size()) <= shape_.candidate_topk_blocks) {
    event.chosen = std::move(*recorded);
  }
}

LayerReplay::RecordedSelection LayerReplay::recorded_selection(const RecordedTensor& topk, const QueryRow& query,
                                                               std::int64_t index) const {
  const std::vector<std::int64_t> entries = topk.integers(query.first, index);
  RecordedSelection selection = family_of(file_.config()).selection_format == SelectionFormat::window_first
                                    ? split_entries(topk, entries)
                                    : visible_entries(query, entries);
  std::sort(selection.slots.begin(), selection.slots.end());
  std::sort(selection.positions.begin(), selection.positions.end());
  return selection;
}

/// SelectionFormat::window_first
LayerReplay::RecordedSelection LayerReplay::split_entries(const RecordedTensor& topk,
                                                          const std::vector<std::int64_t>& entries) const {
  const std::int64_t slots = call_.start_pos == 0 ? std::min(call_.seqlen, shape_.window) : shape_.window;
  const std::int64_t offset = call_.start_pos == 0 ? call_.seqlen : shape_.window;
  if (static_cast<std::int64_t>(entries.size()) < slots) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: {} has rows of {}, expected at least {} window slots",
                                                 file_.name(), topk.name, entries.size(), slots));
  }
  RecordedSelection selection;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i] == -1) continue;
    if (static_cast<std::int64_t>(i) < slots) {
      selection.slots.push_back(entries[i]);
    } else {
      // An entry that is no compressed position at all becomes one that is never visible.
      const std::int64_t position = entries[i] >= offset ? entries[i] - offset : kNoPosition;
      selection.positions.push_back(static_cast<std::int32_t>(std::min(position, kNoPosition)));
    }
  }
  return selection;
}

/// SelectionFormat::positions
LayerReplay::RecordedSelection LayerReplay::visible_entries(const QueryRow& query,
                                                            const std::vector<std::int64_t>& entries) const {
  const std::int64_t position = call_.start_pos + query.second;
  RecordedSelection selection;
  for (const std::int64_t entry : entries) {
    if (entry == -1 || (entry > position && entry < call_.start_pos + call_.seqlen)) continue;
    const std::int64_t seen = entry >= 0 && entry <= position ? entry : kNoPosition;
    selection.positions.push_back(static_cast<std::int32_t>(seen));
  }
  return selection;
}

bool LayerReplay::window_fits(const QueryRow& query, const RecordedSelection& recorded) const {
  if (shape_.window == 0) return true;
  if (call_.start_pos > 0 && call_.seqlen > 1) return true;  // which slots held what is not recorded
  const std::int64_t window = shape_.window;
  const std::int64_t position = call_.start_pos + query.second;
  std::vector<std::int64_t> expected;
  for (std::int64_t p = std::max<std::int64_t>(0, position - window + 1); p <= position; ++p) {
    expected.push_back(call_.start_pos == 0 ? p : p % window);
  }
  std::sort(expected.begin(), expected.end());
  return recorded.slots == expected;
}

bool LayerReplay::bounds_known(const QueryRow& query, std::int64_t visible) const {
  return layer_role(file_.config(), role_.index_source).candidate_source < 0 ||
         (source_candidates_ && find_row(*source_candidates_, query.second) >= 0) ||
         visible <=
             std::int64_t{shape_.candidate_block_size} * shape_.candidate_topk_blocks;  // every block is a candidate
}

void LayerReplay::judge_selection(const RecordedSelection& recorded, const QueryRow& query, std::int64_t visible,
                                  const std::vector<std::int32_t>& computed) {
  if (!window_fits(query, recorded)) {
    judged_topk_[query] = {true, kImpossible};
  } else if (bounds_known(query, visible)) {
    judged_topk_[query] = compare_selection(judging_scores(query, visible), computed, recorded.positions);
  }
}

void LayerReplay::selection(const TraceSelection& event) {
  const QueryRow query{event.sequence, call_row(event.position)};
  state_.selections[layer_][query] = event.chosen;
  const std::optional<RecordedTensor>& topk = topk_ ? topk_ : reused_topk_;
  const std::int64_t index = topk ? find_row(*topk, query.second) : -1;
  if (index < 0) return;
  const RecordedSelection recorded = recorded_selection(*topk, query, index);
  if (topk_) judge_selection(recorded, query, event.limit, event.chosen);
  const bool usable = static_cast<int>(recorded.positions.size()) <= shape_.topk && ascending(recorded.positions) &&
                      (recorded.positions.empty() || recorded.positions.back() < event.limit);
  if (usable) event.chosen = recorded.positions;
}

/// A layer that takes over a selection must have what its source recorded (which was judged there and is in force), or
/// could have computed.
void LayerReplay::judge_reused(const QueryRow& query, std::int64_t index) {
  const RecordedSelection recorded = recorded_selection(*topk_, query, index);
  const std::int64_t source = source_topk_ ? find_row(*source_topk_, query.second) : -1;
  if (role_.ratio == 0 || source >= 0) {
    const bool same =
        role_.ratio == 0 || recorded_selection(*source_topk_, query, source).positions == recorded.positions;
    judged_topk_[query] =
        same && window_fits(query, recorded) ? SelectionDifference{} : SelectionDifference{true, kImpossible};
    return;
  }
  const std::int64_t visible = (call_.start_pos + query.second + 1) / role_.ratio;
  judge_selection(recorded, query, visible, state_.selections[role_.index_source][query]);
}

void LayerReplay::progress(int layer, std::int64_t done, std::int64_t total) {
  if (!progress_) return;
  progress_(fmt::format("call {} of {}, layer {}: {} of {} tokens", call_number_ + 1, file_.calls().size(), layer, done,
                        total));
}

void LayerReplay::judge(ReportBuilder& report) {
  compare_ring();
  if (topk_ && role_.index_source != layer_) {
    for (int sequence = 0; sequence < call_.batch; ++sequence) {
      for (std::int64_t i = 0; i < topk_->row_count(); ++i) {
        judge_reused({sequence, topk_->rows[static_cast<std::size_t>(i)]}, i);
      }
    }
  }
  for (const RecordedKind& kind : file_.kinds()) {
    if (const auto found = numeric_.find(kind.name); found != numeric_.end()) {
      const auto& [recorded, error, seen, meaning] = found->second;
      if (seen == recorded.row_count() * call_.batch) {
        report.numeric(kind.name, place(), error.relative());
      } else {
        report.incomparable(kind.name, place(),
                            fmt::format("is recorded, but a {} layer has none", role_name(role_.role)));
      }
    }
    if (kind.use != RecordedUse::candidates && kind.use != RecordedUse::selection) continue;
    const auto& rows = kind.use == RecordedUse::candidates ? judged_candidates_ : judged_topk_;
    for (const auto& [query, difference] : rows) report.selection(kind.name, place(query), difference);
  }
}

}  // namespace skim

#include "verify/layer_replay.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/bf16.hpp"

namespace skim {
namespace {

std::vector<float> widen_row(const TraceRows& event, std::int64_t i) {
  if (event.floats.data != nullptr) return {event.floats.row(i), event.floats.row(i) + event.floats.shape[1]};
  std::vector<float> wide(static_cast<std::size_t>(event.rows.shape[1]));
  std::transform(event.rows.row(i), event.rows.row(i) + event.rows.shape[1], wide.begin(),
                 [](bf16 value) { return to_float(value); });
  return wide;
}

}  // namespace

LayerReplay::LayerReplay(const CaseFile& file, Place place, WindowRings& rings, ReusedVerdicts& reused,
                         const VerifyOptions& options)
    : file_(file),
      place_(place),
      call_(file.calls()[static_cast<std::size_t>(place.call)]),
      role_(layer_role(file.config(), place.layer)),
      rings_(rings),
      options_(options),
      numbers_(file, place.call, place.layer, options.keep_failing),
      selections_(file, place.call, place.layer, reused) {}

bool LayerReplay::wants(std::string_view name) {
  if (name == "index_score" && selections_.wants_scores()) return true;
  const RecordedKind* kind = file_.find_kind(name);
  return numbers_.wants(name) || (kind != nullptr && kind->use == RecordedUse::window);
}

void LayerReplay::rows(const TraceRows& event) {
  const RecordedKind* kind = file_.find_kind(event.name);
  if (kind != nullptr && kind->use == RecordedUse::window) {
    rings_.update(event);
    if (call_.start_pos > 0) return;  // the whole ring is compared afterwards
  }
  if (kind == nullptr || !numbers_.wants(event.name)) return;
  const bool groups = kind->meaning == RowMeaning::group;
  const std::int64_t first = event.first - call_.start_pos / (groups ? std::max(1, role_.ratio) : 1);
  const std::int64_t count = event.floats.data != nullptr ? event.floats.shape[0] : event.rows.shape[0];
  for (std::int64_t i = 0; i < count; ++i) {
    if (numbers_.records(event.name, first + i)) {
      numbers_.add(event.name, event.sequence, first + i, widen_row(event, i));
    }
  }
}

void LayerReplay::scores(const TraceScores& event) {
  const std::int64_t row = event.position - call_.start_pos;
  if (numbers_.records("index_score", row)) {
    numbers_.add("index_score", event.sequence, row, {event.scores.begin(), event.scores.end()});
  }
  selections_.scores(event);
}

void LayerReplay::compare_ring() {
  const RecordedKind* kind = file_.find_kind(RecordedUse::window);
  if (call_.start_pos == 0 || kind == nullptr) return;
  for (int sequence = 0; sequence < call_.batch; ++sequence) {
    for (std::int64_t slot = 0; numbers_.records(kind->name, slot); ++slot) {
      numbers_.add(kind->name, sequence, slot, rings_.row(sequence, slot));
    }
  }
}

void LayerReplay::progress(int layer, std::int64_t done, std::int64_t total) {
  if (!options_.progress) return;
  options_.progress(fmt::format("call {} of {}, layer {}: {} of {} tokens", place_.call + 1, file_.calls().size(),
                                layer, done, total));
}

void LayerReplay::report_set(ReportBuilder& report, const RecordedKind& kind) const {
  const VerifyPlace place{place_.call, place_.layer, -1, -1, -1};
  const bool candidates = kind.use == RecordedUse::candidates;
  if (candidates && !role_.is_candidate_source && file_.recorded(place_.call, place_.layer, kind)) {
    report.incomparable(kind, place, "is recorded, but this layer publishes no candidates");
  }
  for (const auto& [query, difference] :
       candidates ? selections_.candidate_verdicts() : selections_.selection_verdicts()) {
    report.selection(kind, {place.call, place.layer, query.first, query.second, -1}, difference);
  }
}

void LayerReplay::judge(ReportBuilder& report) {
  compare_ring();
  selections_.finish();
  const VerifyPlace place{place_.call, place_.layer, -1, -1, -1};
  for (const RecordedKind& kind : file_.kinds()) {
    if (kind.is_set()) report_set(report, kind);
    for (const NumericComparison& comparison : numbers_.comparisons()) {
      if (comparison.kind().name != kind.name) continue;
      if (comparison.complete()) {
        report.numeric(comparison, place_.call, place_.layer);
      } else {
        report.incomparable(kind, place, fmt::format("is recorded, but a {} layer has none", role_name(role_.role)));
      }
    }
  }
}

}  // namespace skim

#include "verify/report_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace skim {

double Allowances::of(const RecordedKind& kind) const {
  if (kind.use == RecordedUse::selection || kind.use == RecordedUse::candidates) return kSelectionAllowance;
  return everywhere ? *everywhere : kind.allowed.of(reference, fp8);
}

VerifyKind& ReportBuilder::kind(std::string_view name) {
  const auto found = kinds_.find(name);
  if (found != kinds_.end()) return found->second;
  VerifyKind fresh;
  fresh.name = name;
  fresh.allowed = allowances_.of(
      *std::find_if(known_.begin(), known_.end(), [&](const RecordedKind& known) { return known.name == name; }));
  return kinds_.emplace(fresh.name, fresh).first->second;
}

void ReportBuilder::fail(VerifyKind& kind, std::string text) {
  kind.passed = false;
  failures_.push_back({judged_, std::move(text)});
}

void ReportBuilder::numeric(std::string_view name, const std::string& place, double error) {
  ++judged_;
  VerifyKind& entry = kind(name);
  ++entry.compared;
  if (error > entry.worst || entry.where.empty()) {
    entry.worst = error;
    entry.where = place;
  }
  if (error <= entry.allowed) return;
  fail(entry, std::isfinite(error)
                  ? fmt::format("{}: {} differs by {:.2e}, allowed {:.1e}", place, name, error, entry.allowed)
                  : fmt::format("{}: {} is infinite, NaN or other than zero where it should not be", place, name));
}

void ReportBuilder::incomparable(std::string_view name, const std::string& place, const std::string& reason) {
  ++judged_;
  VerifyKind& entry = kind(name);
  ++entry.compared;
  entry.worst = std::numeric_limits<double>::infinity();
  entry.where = place;
  fail(entry, fmt::format("{}: {} {}", place, name, reason));
}

void ReportBuilder::selection(std::string_view name, const std::string& place, const SelectionDifference& difference) {
  ++judged_;
  VerifyKind& entry = kind(name);
  ++entry.compared;
  entry.exchanged_rows += difference.exchanged ? 1 : 0;
  if (difference.distance > entry.worst || entry.where.empty()) {
    entry.worst = difference.distance;
    entry.where = place;
  }
  if (difference.distance <= kSelectionAllowance) return;
  std::string text =
      std::isfinite(difference.distance)
          ? fmt::format("{}: {} exchanges an entry {:.1e} of the largest score away from the cut-off, allowed {:.1e}",
                        place, name, difference.distance, kSelectionAllowance)
          : fmt::format("{}: {} is not a selection that these scores allow", place, name);
  if (difference.distance <= kSelectionLimit) {
    loose_[entry.name].push_back({judged_, std::move(text)});
  } else {
    fail(entry, std::move(text));
  }
}

void ReportBuilder::finish(VerifyReport& report) {
  for (auto& [name, rows] : loose_) {
    VerifyKind& entry = kinds_.find(name)->second;
    const auto tolerated = static_cast<std::size_t>(kLooseShare * static_cast<double>(entry.compared));
    if (rows.size() <= tolerated) continue;
    entry.passed = false;
    rows.front().text += fmt::format(" in more than {} rows ({} do)", tolerated, rows.size());
    failures_.push_back(rows.front());
  }
  const auto first = std::min_element(failures_.begin(), failures_.end(),
                                      [](const Failure& a, const Failure& b) { return a.order < b.order; });
  if (first != failures_.end()) report.first_failure = first->text;
  if (kinds_.empty()) report.first_failure = "nothing is recorded that could be compared";
  for (const RecordedKind& known : known_) {
    if (const auto found = kinds_.find(known.name); found != kinds_.end()) report.kinds.push_back(found->second);
  }
}

}  // namespace skim

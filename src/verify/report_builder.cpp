#include "verify/report_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace skim {
namespace {

constexpr std::size_t kMostFailing = 64;                   // tensors that a report keeps
constexpr std::size_t kMostErrors = std::size_t{1} << 24;  // of rows and heads, in all of them together

std::string_view company_name(Company company) {
  return company == Company::one_token ? "calls of one token together" : "short calls together";
}

/// Whether an error is one that no company can make up for.
bool is_hopeless(double error) { return !std::isfinite(error); }

std::string failure_text(const VerifyPlace& place, std::string_view tensor, const std::string& what) {
  return fmt::format("{}: {} {}", place.text(), tensor, what);
}

}  // namespace

std::string VerifyPlace::text() const {
  std::string text;
  const auto add = [&](std::string_view name, std::int64_t value) {
    if (value >= 0) text += fmt::format("{}{} {}", text.empty() ? "" : " ", name, value);
  };
  add("call", call);
  add("layer", layer);
  add("sequence", sequence);
  add("row", row);
  add("head", head);
  return text;
}

double Allowances::of(const RecordedKind& kind) const {
  if (kind.is_set()) return reference ? kSelectionAllowance : kOptimizedSelectionAllowance;
  if (everywhere) return *everywhere;
  const double standard = kind.allowed.of(reference, fp8);
  return world_size > 1 ? std::max(standard, kind.allowed.several_ranks) : standard;
}

double Allowances::row_bound(const RecordedKind& kind) const {
  const double standard = kind.code ? kCodeRowBound : kRowBound;
  return everywhere ? std::max(standard, 4 * *everywhere) : standard;
}

VerifyKind& ReportBuilder::kind(int layer, std::string_view name, const RecordedKind& recorded) {
  VerifyKind& entry = kinds_[{layer, std::string(name)}];
  if (!entry.name.empty()) return entry;
  entry.name = name;
  entry.layer = layer;
  entry.selection = recorded.is_set();
  entry.allowed = allowances_.of(recorded);
  entry.row_allowed = entry.selection ? 0 : allowances_.row_bound(recorded);
  return entry;
}

void ReportBuilder::fail(int layer, Failure failure) {
  for (const int of : {-1, layer}) {
    kinds_[{of, failure.tensor}].passed = false;
  }
  failures_.push_back(std::move(failure));
}

Company ReportBuilder::company(const NumericComparison& comparison, std::int64_t call) const {
  if (comparison.tokens() >= kLongCall) return Company::alone;
  return file_.calls()[static_cast<std::size_t>(call)].seqlen == 1 ? Company::one_token : Company::few_tokens;
}

void ReportBuilder::count(const NumericComparison& comparison, VerifyKind& entry, const VerifyPlace& place,
                          double error, Company company) {
  const bool first = entry.compared++ == 0;
  const bool counts = company == Company::alone || is_hopeless(error);
  if (counts && (error > entry.worst || entry.where.empty())) {
    entry.worst = error;
    entry.where = place.text();
  }
  if (first || comparison.worst_row() > entry.worst_row) {
    entry.worst_row = comparison.worst_row();
    entry.worst_row_place = comparison.worst_place();
    entry.worst_row_place.call = place.call;
    entry.worst_row_place.layer = place.layer;
  }
  if (counts) return;
  Pool& pool = pools_[{entry.layer, entry.name}][static_cast<std::size_t>(company)];
  pool.sum.add(comparison.sum());
  ++pool.calls;
}

void ReportBuilder::numeric(const NumericComparison& comparison, std::int64_t call, int layer) {
  ++judged_;
  const VerifyPlace place{call, layer, -1, -1, -1};
  const Company of_call = company(comparison, call);
  for (const int of : {-1, layer}) {
    count(comparison, kind(of, comparison.name(), comparison.kind()), place, comparison.sum().relative(), of_call);
  }
  judge_numbers(comparison, place, of_call);
}

void ReportBuilder::judge_numbers(const NumericComparison& comparison, const VerifyPlace& place, Company company) {
  const double error = comparison.sum().relative(), allowed = allowances_.of(comparison.kind());
  const double bound = allowances_.row_bound(comparison.kind());
  Failure failure{judged_, comparison.name(), "", place, error};
  if (!(error <= allowed) || !(comparison.worst_row() <= bound)) keep(comparison, place);
  if (is_hopeless(error)) {
    failure.text = failure_text(place, comparison.name(), "is infinite, NaN or other than zero where it should not be");
    fail(place.layer, std::move(failure));
  } else if (error > allowed && company == Company::alone) {
    failure.text =
        failure_text(place, comparison.name(), fmt::format("differs by {:.2e}, allowed {:.1e}", error, allowed));
    fail(place.layer, std::move(failure));
  } else if (comparison.worst_row() > bound) {
    failure.place = *comparison.first_beyond(bound);
    failure.place.call = place.call;
    failure.place.layer = place.layer;
    failure.text =
        failure_text(failure.place, comparison.name(),
                     fmt::format("differs by {:.2e} in this {}, allowed {:.1e}", comparison.row_error(failure.place),
                                 failure.place.head >= 0 ? "head" : "row", bound));
    fail(place.layer, std::move(failure));
  } else if (error > allowed) {
    pools_[{-1, comparison.name()}][static_cast<std::size_t>(company)].over.push_back(std::move(failure));
  }
}

void ReportBuilder::keep(const NumericComparison& comparison, const VerifyPlace& place) {
  if (failing_.size() >= kMostFailing) return;
  failing_.push_back(comparison.tensor(place.call, place.layer));
  kept_errors_ += failing_.back().row_errors.size();
  if (kept_errors_ > kMostErrors) failing_.back().row_errors.clear();
}

void ReportBuilder::incomparable(const RecordedKind& recorded, const VerifyPlace& place, const std::string& reason) {
  ++judged_;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (const int of : {-1, place.layer}) {
    VerifyKind& entry = kind(of, recorded.name, recorded);
    ++entry.compared;
    entry.worst = kInfinite;
    entry.where = place.text();
  }
  fail(place.layer,
       {judged_, std::string(recorded.name), failure_text(place, recorded.name, reason), place, kInfinite});
}

void ReportBuilder::selection(const RecordedKind& recorded, const VerifyPlace& place,
                              const SelectionDifference& difference) {
  ++judged_;
  for (const int of : {-1, place.layer}) {
    VerifyKind& entry = kind(of, recorded.name, recorded);
    ++entry.compared;
    entry.exchanged_rows += difference.exchanged ? 1 : 0;
    if (difference.distance > entry.worst || (difference.exchanged && entry.where.empty())) {
      entry.worst = difference.distance;
      entry.where = place.text();
    }
  }
  const double allowed = allowances_.of(recorded);
  if (difference.distance <= allowed) return;
  const std::string what =
      !difference.fault.empty()
          ? difference.fault
          : fmt::format("exchanges an entry {:.1e} of the largest score away from the cut-off, allowed {:.1e}",
                        difference.distance, allowed);
  Failure failure{judged_, std::string(recorded.name), failure_text(place, recorded.name, what), place,
                  difference.distance};
  if (difference.distance <= kSelectionLimit) {
    loose_[failure.tensor].push_back(std::move(failure));
  } else {
    fail(place.layer, std::move(failure));
  }
}

/// The figures of pools enter the tables; a pool that is over fails at the first call that is over by itself.
void ReportBuilder::finish_pools() {
  for (auto& [key, pools] : pools_) {
    VerifyKind& entry = kinds_.at(key);
    for (const Company company : {Company::one_token, Company::few_tokens}) {
      const Pool& pool = pools[static_cast<std::size_t>(company)];
      if (pool.calls == 0) continue;
      const double error = pool.sum.relative();
      if (error > entry.worst || entry.where.empty()) {
        entry.worst = error;
        entry.where = fmt::format("{} {}", pool.calls, company_name(company));
      }
      if (key.first >= 0 || !(error > entry.allowed) || pool.over.empty()) continue;
      Failure failure = pool.over.front();
      failure.text = failure_text(failure.place, failure.tensor,
                                  fmt::format("differs by {:.2e}, {} {} by {:.2e}, allowed {:.1e}", failure.error,
                                              pool.calls, company_name(company), error, entry.allowed));
      fail(failure.place.layer, std::move(failure));
    }
  }
}

std::int64_t ReportBuilder::recorded_rows(std::string_view kind) const {
  std::int64_t rows = 0;
  for (std::size_t n = 0; n < file_.calls().size(); ++n) {
    for (const int layer : file_.layers()) {
      const auto recorded = file_.recorded(static_cast<std::int64_t>(n), layer, kind);
      rows += recorded ? recorded->row_count() * file_.calls()[n].batch : 0;
    }
  }
  return rows;
}

void ReportBuilder::finish_loose() {
  for (auto& [name, rows] : loose_) {
    const auto share = static_cast<std::size_t>(kLooseShare * static_cast<double>(recorded_rows(name)));
    const std::size_t tolerated = std::max<std::size_t>(share, 1);
    if (rows.size() <= tolerated) continue;
    rows.front().text += fmt::format(", which {} rows need; {} may", rows.size(), tolerated);
    fail(rows.front().place.layer, rows.front());
  }
}

void ReportBuilder::describe_failures(VerifyReport& report) {
  if (kinds_.empty()) report.first_failure = "nothing is recorded that could be compared";
  std::sort(failures_.begin(), failures_.end(), [](const Failure& a, const Failure& b) { return a.order < b.order; });
  for (const Failure& failure : failures_) {
    for (const int of : {-1, failure.place.layer}) {
      VerifyKind& entry = kinds_.at({of, failure.tensor});
      if (!entry.first_beyond) entry.first_beyond = failure.place;
    }
  }
  if (failures_.empty()) return;
  report.first_failure = failures_.front().text;
  report.place = failures_.front().place;
  report.tensor = failures_.front().tensor;
  report.error = failures_.front().error;
}

std::size_t ReportBuilder::order_of(std::string_view name) const {
  const std::vector<RecordedKind>& kinds = file_.kinds();
  const std::string_view first = name.substr(0, name.find('*'));  // of a product
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const RecordedKind& kind) { return kind.name == first; });
  return static_cast<std::size_t>(found - kinds.begin());
}

void ReportBuilder::finish(VerifyReport& report) {
  finish_pools();
  finish_loose();
  describe_failures(report);
  std::vector<VerifyKind> entries;
  for (auto& [key, entry] : kinds_) entries.push_back(entry);
  std::stable_sort(entries.begin(), entries.end(), [&](const VerifyKind& a, const VerifyKind& b) {
    return std::pair(a.layer, order_of(a.name)) < std::pair(b.layer, order_of(b.name));
  });
  for (VerifyKind& entry : entries) (entry.layer < 0 ? report.kinds : report.layers).push_back(std::move(entry));
  std::erase_if(failing_, [&](const VerifyTensor& tensor) { return kinds_.at({-1, tensor.name}).passed; });
  report.failing = std::move(failing_);
}

}  // namespace skim

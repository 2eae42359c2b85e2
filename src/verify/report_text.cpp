#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "skim/verify.hpp"

namespace skim {
namespace {

std::string number(double value) { return value == 0 ? "exact" : fmt::format("{:.2e}", value); }

/// What a line says behind its figures.
std::string remark(const VerifyKind& kind) {
  std::string text = kind.passed ? "" : "FAILED ";
  if (!kind.selection) {
    if (kind.worst > 0) text += kind.where;
    if (kind.worst_row > 0) text += fmt::format("; worst row {:.2e}: {}", kind.worst_row, kind.worst_row_place.text());
    return text;
  }
  if (kind.exchanged_rows == 0) return text + "the recorded positions";
  text += fmt::format("{} rows differ", kind.exchanged_rows);
  return text + (kind.worst == 0 ? ", by ties" : ", worst at " + kind.where);
}

void add_list(std::string& text, std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += fmt::format("  {}: {} tensors, e.g. {}\n", what, names.size(), names.front());
}

}  // namespace

std::string report_text(const VerifyReport& report) {
  std::string text = fmt::format("{}: {}, {} kernels\n", report.file, report.model, report.kernels);
  const auto end = std::back_inserter(text);
  fmt::format_to(end, "  {:<29} {:>9} {:>10} {:>10}  {}\n", "tensor", "compared", "worst", "allowed", "where");
  for (const VerifyKind& kind : report.kinds) {
    const std::string worst = kind.selection && kind.worst == 0 ? "0" : number(kind.worst);
    fmt::format_to(end, "  {:<29} {:>9} {:>10} {:>10.2e}  {}\n", kind.name, kind.compared, worst, kind.allowed,
                   remark(kind));
  }
  add_list(text, "not compared, without rows", report.empty);
  add_list(text, "ignored, of other calls or layers or beginning with x_ or rank.", report.ignored);
  return text + (report.passed() ? "  passed" : "  FAILED: " + report.first_failure) + "\n";
}

}  // namespace skim

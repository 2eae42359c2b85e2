#include <fmt/format.h>

#include <iterator>

#include "skim/verify.hpp"

namespace skim {

std::string report_text(const VerifyReport& report) {
  std::string text = fmt::format("{}: {}, {} kernels\n", report.file, report.model, report.kernels);
  const auto add = std::back_inserter(text);
  fmt::format_to(add, "  {:<16} {:>9} {:>10} {:>10}  {}\n", "tensor", "compared", "worst", "allowed", "where");
  for (const VerifyKind& kind : report.kinds) {
    const std::string exchanged =
        kind.exchanged_rows > 0 ? fmt::format("; {} rows with an entry exchanged", kind.exchanged_rows) : "";
    fmt::format_to(add, "  {:<16} {:>9} {:>10.2e} {:>10.2e}  {}{}{}\n", kind.name, kind.compared, kind.worst,
                   kind.allowed, kind.passed ? "" : "FAILED ", kind.worst > 0 ? kind.where : "exact", exchanged);
  }
  if (!report.ignored.empty()) {
    fmt::format_to(add, "  ignored: {} tensors of unknown name, call or layer, e.g. {}\n", report.ignored.size(),
                   report.ignored.front());
  }
  return text + (report.passed() ? "  passed\n" : "  FAILED: " + report.first_failure + "\n");
}

}  // namespace skim

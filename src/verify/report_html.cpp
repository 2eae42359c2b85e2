// The report as one page. Everything it shows is drawn here: it needs neither network nor scripts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "skim/verify.hpp"

namespace skim {
namespace {

constexpr std::string_view kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; padding: 0 1em; color: #222; }
h1 { font-size: 1.4em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; } td, th { padding: 2px 8px; text-align: right; border: 1px solid #ddd; }
th, td:first-child { text-align: left; font-weight: normal; } th { background: #f4f4f4; }
.pass { color: #176b2c; } .fail { color: #a11; font-weight: bold; } .bad { background: #fbd5d5; }
.scroll { overflow-x: auto; } svg { background: #fff; border: 1px solid #ddd; } .note { color: #666; }
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string number(double value) {
  if (!std::isfinite(value)) return "cannot be compared";
  return value == 0 ? "0" : fmt::format("{:.1e}", value);
}

void add_verdict(std::string& page, const VerifyReport& report) {
  page += fmt::format("<h1>{}</h1>\n<p>{}, {} kernels: ", escaped(report.file), escaped(report.model),
                      escaped(report.kernels));
  page += report.passed() ? "<span class=pass>passed</span></p>\n"
                          : fmt::format("<span class=fail>failed</span></p>\n<p class=fail>{}</p>\n",
                                        escaped(report.first_failure));
  for (const std::string& sentence : report.shape) page += fmt::format("<p>{}</p>\n", escaped(sentence));
}

void add_hypotheses(std::string& page, const VerifyReport& report) {
  if (report.hypotheses.empty()) return;
  page += "<h2>Which mistake fits</h2>\n<table><tr><th>mistake<th>error left<th></tr>\n";
  for (const VerifyHypothesis& entry : report.hypotheses) {
    page += fmt::format("<tr><td>{}<td>{}<td>{}</tr>\n", escaped(entry.mistake), number(entry.error),
                        entry.fits ? "<b>fits</b>" : "does not fit");
  }
  page += "</table>\n";
  if (!report.advice.empty()) page += fmt::format("<p>{}</p>\n", escaped(report.advice));
}

void add_kinds(std::string& page, const VerifyReport& report) {
  page +=
      "<h2>Tensors</h2>\n<div class=scroll><table><tr><th>tensor<th>compared<th>worst<th>allowed<th>where"
      "<th>worst row<th>allowed<th>where</tr>\n";
  for (const VerifyKind& kind : report.kinds) {
    page += fmt::format("<tr{}><td>{}<td>{}<td>{}<td>{:.1e}<td>{}", kind.passed ? "" : " class=bad", escaped(kind.name),
                        kind.compared, number(kind.worst), kind.allowed, escaped(kind.worst > 0 ? kind.where : ""));
    page += kind.selection ? fmt::format("<td colspan=3>{} rows differ</tr>\n", kind.exchanged_rows)
                           : fmt::format("<td>{}<td>{:.1e}<td>{}</tr>\n", number(kind.worst_row), kind.row_allowed,
                                         escaped(kind.worst_row > 0 ? kind.worst_row_place.text() : ""));
  }
  page += "</table></div>\n";
}

/// Worst error by layer and tensor.
void add_layers(std::string& page, const VerifyReport& report) {
  std::set<int> layers;
  std::map<std::pair<int, std::string>, const VerifyKind*> cells;
  for (const VerifyKind& kind : report.layers) {
    layers.insert(kind.layer);
    cells[{kind.layer, kind.name}] = &kind;
  }
  page += "<h2>Layers</h2>\n<div class=scroll><table><tr><th>layer";
  for (const VerifyKind& kind : report.kinds) page += "<th>" + escaped(kind.name);
  page += "</tr>\n";
  for (const int layer : layers) {
    page += fmt::format("<tr><td>{}", layer);
    for (const VerifyKind& kind : report.kinds) {
      const auto found = cells.find({layer, kind.name});
      if (found == cells.end()) {
        page += "<td>";
      } else {
        const VerifyKind& cell = *found->second;
        page += fmt::format("<td{} title=\"{}\">{}", cell.passed ? "" : " class=bad",
                            escaped(cell.first_beyond ? cell.first_beyond->text() : cell.where), number(cell.worst));
      }
    }
    page += "</tr>\n";
  }
  page += "</table></div>\n";
}

/// White for exact, yellow below a thousandth, red from a tenth on, black for what cannot be compared.
std::string colour(float error) {
  if (!std::isfinite(error)) return "#000";
  const double heat = error <= 0 ? 0 : std::clamp((std::log10(static_cast<double>(error)) + 5) / 5, 0.05, 1.0);
  return fmt::format("hsl({:.0f} 90% {:.0f}%)", 60 * (1 - heat), 100 - 50 * heat);
}

/// Errors of tokens (across) and heads (down); neighbours share a cell, which shows the worst, where there are many.
void add_heat_map(std::string& page, const VerifyTensor& tensor) {
  constexpr std::int64_t kMostColumns = 250, kMostRows = 64;
  const std::int64_t tokens = tensor.batch * tensor.rows;
  if (tensor.row_errors.empty() || tokens == 0) return;
  const std::int64_t across = (tokens + kMostColumns - 1) / kMostColumns;
  const std::int64_t down = (tensor.heads + kMostRows - 1) / kMostRows;
  const std::int64_t columns = (tokens + across - 1) / across, rows = (tensor.heads + down - 1) / down;
  const std::int64_t size = std::clamp<std::int64_t>(1000 / columns, 4, 16);
  std::vector<float> worst(static_cast<std::size_t>(columns * rows), 0.0f);
  for (std::int64_t i = 0; i < tokens * tensor.heads; ++i) {
    float& cell = worst[static_cast<std::size_t>(i % tensor.heads / down * columns + i / tensor.heads / across)];
    const float error = tensor.row_errors[static_cast<std::size_t>(i)];
    cell = std::isfinite(error) && std::isfinite(cell) ? std::max(cell, error) : HUGE_VALF;
  }
  const auto end = std::back_inserter(page);
  fmt::format_to(end, "<div class=scroll><svg width={} height={}>", columns * size, rows * size);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const float error = worst[static_cast<std::size_t>(row * columns + column)];
      const std::int64_t token = column * across;
      fmt::format_to(end,
                     "<rect x={} y={} width={} height={} fill=\"{}\"><title>sequence {} row {} head {}: {}</title>"
                     "</rect>",
                     column * size, row * size, size, size, colour(error), token / tensor.rows,
                     tensor.row_numbers[static_cast<std::size_t>(token % tensor.rows)], row * down, number(error));
    }
  }
  page +=
      "</svg></div>\n<p class=note>tokens across (sequence by sequence), heads down; white is exact, red a tenth or "
      "more</p>\n";
}

std::string line(const std::vector<float>& values, double scale, std::string_view stroke) {
  std::string points;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = std::isfinite(values[i]) ? values[i] : 0;
    points += fmt::format("{:.1f},{:.1f} ", 1000.0 * static_cast<double>(i) / static_cast<double>(values.size()),
                          80 - 75 * value * scale);
  }
  return fmt::format("<polyline fill=none stroke=\"{}\" points=\"{}\"/>", stroke, points);
}

/// Got and want of the worst row, one over the other.
void add_worst_row(std::string& page, const VerifyRow& row) {
  if (row.want.empty()) return;
  double largest = 0;
  for (const auto* side : {&row.got, &row.want}) {
    for (const float value : *side) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
  }
  const double scale = largest > 0 ? 1 / largest : 0;
  page += fmt::format(
      "<p>Worst row: {}; <span style=\"color:#06c\">got</span> over <span style=\"color:#d60\">want</span>"
      ", elements across, largest {}</p>\n<svg width=1000 height=160>{}{}</svg>\n",
      escaped(row.place.text()), number(largest), line(row.want, scale, "#d60"), line(row.got, scale, "#06c"));
  page += "<div class=scroll><table><tr><th>element";
  const std::size_t count = std::min<std::size_t>(row.want.size(), 16);
  for (std::size_t i = 0; i < count; ++i) page += fmt::format("<th>{}", i);
  for (const auto& [name, side] : {std::pair{"got", &row.got}, std::pair{"want", &row.want}}) {
    page += fmt::format("</tr>\n<tr><td>{}", name);
    for (std::size_t i = 0; i < std::min(count, side->size()); ++i) page += fmt::format("<td>{:.4g}", (*side)[i]);
  }
  page += "</tr></table></div>\n";
}

void add_failing(std::string& page, const VerifyReport& report) {
  constexpr std::size_t kMostDrawn = 12;
  for (std::size_t i = 0; i < std::min(kMostDrawn, report.failing.size()); ++i) {
    const VerifyTensor& tensor = report.failing[i];
    page += fmt::format("<h2>{} of {}: {}</h2>\n", escaped(tensor.name), escaped(tensor.place.text()),
                        number(tensor.error));
    add_heat_map(page, tensor);
    add_worst_row(page, tensor.worst);
  }
  if (report.failing.size() > kMostDrawn) {
    page +=
        fmt::format("<p class=note>{} more tensors are beyond their bounds.</p>\n", report.failing.size() - kMostDrawn);
  }
}

}  // namespace

std::string report_html(const VerifyReport& report) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>skim verify: {}</title>\n"
      "<style>{}</style>\n",
      escaped(report.file), kStyle);
  add_verdict(page, report);
  add_hypotheses(page, report);
  add_kinds(page, report);
  add_layers(page, report);
  add_failing(page, report);
  return page + "</html>\n";
}

}  // namespace skim

#include "soak/run.hpp"

#include <fmt/format.h>

#include <chrono>

#include "soak/operations.hpp"

namespace skim::cli {
namespace {

constexpr std::int64_t kCheckInterval = 50;  // operations between two checks of one sequence, on average
constexpr std::int64_t kShortestCache = 100, kLongestCache = 400;  // operations

/// One operation and what must hold after it; now and then a sequence is computed again.
void step(SoakTable& table) {
  ++table.report.last_operation;
  run_any(table);
  table.expect_none(table.subject->problem());
  for (const Tracked& sequence : table.subject->sequences) {
    if (table.random.one_in(kCheckInterval)) table.check(sequence);
  }
}

void finish_cache(SoakTable& table) {
  table.report.kind = "last check";
  table.say("of all sequences");
  table.check_all();
  while (!table.subject->sequences.empty()) table.remove(table.subject->any(table.random).id);
  table.expect_none(table.subject->problem());
}

/// Operations on a cache until they are enough for it or all are done.
void soak_cache(SoakTable& table, const SoakOptions& options, const std::function<bool()>& over) {
  table.subject = std::make_unique<Subject>(table.model, random_options(table.random, table.model, options.threads));
  ++table.report.caches;
  const std::int64_t last = table.report.last_operation + table.random.between(kShortestCache, kLongestCache);
  while (table.report.last_operation < last && !over()) {
    step(table);
    if (options.progress) options.progress(table.report.last_operation);
  }
  if (table.report.difference.empty()) finish_cache(table);
}

}  // namespace

SoakReport soak(const Model& model, const SoakOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  SoakTable table(model, options.seed);
  const auto over = [&] {
    if (!table.report.difference.empty()) return true;
    return options.seconds > 0 ? seconds() >= options.seconds : table.report.last_operation >= options.operations;
  };
  try {
    while (!over()) soak_cache(table, options, over);
  } catch (const Error& error) {
    table.expect(false, fmt::format("unexpected error: {}", error.what()));
  }
  table.report.seconds = seconds();
  return table.report;
}

}  // namespace skim::cli

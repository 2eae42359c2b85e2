#include "bench/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "bench/run.hpp"
#include "skim/error.hpp"

namespace skim::bench {
namespace {

/// Whether the title begins like one of these; all do if there are none.
bool is_wanted(const Operation& operation, const std::vector<std::string>& wanted) {
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(),
                                       [&](const std::string& start) { return operation.title().starts_with(start); });
}

void bench_operation(const BenchRun& run, const BenchModel& model, const Operation& operation) {
  std::vector<std::unique_ptr<Subject>> subjects;
  std::vector<Sampler> samplers;
  for (const KernelSet* set : run.sets) {
    subjects.push_back(operation.make(*set, run.context));
    samplers.push_back(repeated([subject = subjects.back().get()] { subject->run(); }));
  }
  Result about;
  about.model = model.name;
  about.name = operation.name;
  about.shape = operation.shape;
  about.work = operation.work;
  about.from_cache = !subjects[0]->input().empty();
  report(run, measure(run, samplers, subjects[0]->input()), 0, about);
}

}  // namespace

std::vector<Operation> operations(const Checkpoint& checkpoint) {
  std::vector<Operation> all = linear_operations(checkpoint);
  for (const auto& part : {index_operations(checkpoint.config()), selection_operations(checkpoint.config()),
                           attend_operations(checkpoint.config()), row_operations(checkpoint.config())}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void check_operations(std::span<const BenchModel> models, const std::vector<std::string>& wanted) {
  std::vector<Operation> all;
  for (const BenchModel& model : models) {
    for (Operation& operation : operations(model.checkpoint)) all.push_back(std::move(operation));
  }
  for (const std::string& start : wanted) {
    if (std::any_of(all.begin(), all.end(), [&](const Operation& found) { return is_wanted(found, {start}); }))
      continue;
    std::set<std::string> names;
    for (const Operation& operation : all) names.insert(operation.name);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--ops {}: no operation begins like this; there are: {}", start, fmt::join(names, ", ")));
  }
}

void bench_operations(const BenchRun& run, const BenchModel& model, const std::vector<std::string>& wanted) {
  run.report.print_header(fmt::format("{}: operations, {} threads", model.name, run.context.threads()));
  for (const Operation& operation : operations(model.checkpoint)) {
    if (is_wanted(operation, wanted)) bench_operation(run, model, operation);
  }
}

}  // namespace skim::bench

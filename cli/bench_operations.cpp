#include "bench_operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "bench_run.hpp"
#include "skim/error.hpp"

namespace skim::bench {
namespace {

std::vector<Operation> wanted_operations(const BenchModel& model, const std::vector<std::string>& wanted) {
  std::vector<Operation> all = operations(model.checkpoint);
  if (wanted.empty()) return all;
  std::set<std::string> names;
  for (const Operation& operation : all) names.insert(operation.name);
  const auto begins = [](const Operation& operation, const std::string& start) {
    return operation.title().starts_with(start);
  };
  for (const std::string& start : wanted) {
    if (std::any_of(all.begin(), all.end(), [&](const Operation& operation) { return begins(operation, start); }))
      continue;
    throw Error(ErrorCode::invalid_argument, fmt::format("--ops {}: no such operation of {}; there are: {}", start,
                                                         model.name, fmt::join(names, ", ")));
  }
  std::erase_if(all, [&](const Operation& operation) {
    return std::none_of(wanted.begin(), wanted.end(),
                        [&](const std::string& start) { return begins(operation, start); });
  });
  return all;
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

void bench_operations(const BenchRun& run, const BenchModel& model, const std::vector<std::string>& wanted) {
  const std::vector<Operation> list = wanted_operations(model, wanted);
  run.report.print_header(fmt::format("{}: operations, {} threads", model.name, run.context.threads()));
  for (const Operation& operation : list) bench_operation(run, model, operation);
}

}  // namespace skim::bench

// skim bench: how fast operations and layers run, beside what the machine could do.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench_run.hpp"
#include "commands.hpp"
#include "model_argument.hpp"
#include "output_file.hpp"

namespace skim::cli {
namespace {

using namespace skim::bench;

struct BenchArguments {
  std::vector<std::string> models = {"synthetic:v41-flash", "synthetic:v32"};
  std::vector<std::string> operations;
  std::string kernels, compare, json;
  Pace pace;
  int threads = 0;
};

void bench(const BenchArguments& arguments) {
  check_output(arguments.json);
  std::vector<const KernelSet*> sets = {&choose_kernel_set(arguments.kernels)};
  if (!arguments.compare.empty()) sets.push_back(&choose_kernel_set(arguments.compare));
  Context context(arguments.threads);
  Ceilings ceilings(context);
  Report report(ceilings);
  const BenchRun run{sets, arguments.pace, context, ceilings, report};
  for (const std::string& name : arguments.models) {
    const BenchModel model{name, open_model(name)};
    bench_operations(run, model, arguments.operations);
  }
  report.print_ceilings();
  if (!arguments.json.empty()) write_text(arguments.json, report.json().dump(1) + "\n");
}

}  // namespace

void add_bench(CLI::App& app) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "Time operations and layers beside what the machine could do.");
  command->add_option("--model", arguments->models,
                      std::string("Default: the two released shapes, one after the other. ") + kModelHelp);
  command
      ->add_option("--ops", arguments->operations,
                   "Operations whose names begin like this, e.g. attend or \"linear 1 x\"; default: all")
      ->delimiter(',');
  command->add_option("--kernels", arguments->kernels, "Kernel set, e.g. reference; default: the fastest here");
  command->add_option("--compare", arguments->compare, "Another kernel set, measured in turn with the first");
  command->add_option("--threads", arguments->threads, "Threads; default: one per processor")
      ->check(CLI::Range(1, 4096));
  command->add_option("--repeats", arguments->pace.repeats, "Most repeats of each measurement; default 9")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--seconds", arguments->pace.seconds,
                   "Time for each measurement, after which it stops with no less than two repeats; default 1")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--json", arguments->json, "Write everything to this file too");
  command->callback([arguments] { bench(*arguments); });
}

}  // namespace skim::cli

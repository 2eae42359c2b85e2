// skim soak: random operations on caches until something differs or enough are done.
#include <fmt/core.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "commands.hpp"
#include "model_argument.hpp"
#include "progress.hpp"
#include "skim/model.hpp"
#include "soak/run.hpp"

namespace skim::cli {
namespace {

struct SoakArguments {
  std::vector<std::string> models = {"synthetic:v41-tiny", "synthetic:v32-tiny", "synthetic:v4-tiny"};
  std::string kernels;
  std::int64_t operations = 2000;
  double seconds = 0;
  std::int64_t seed = 0;
  int threads = 2;
  bool seeded = false, json = false;
};

std::int64_t random_seed() {
  std::random_device device;
  return device();
}

SoakReport soak_model(const Model& model, const std::string& name, const SoakArguments& arguments) {
  ProgressLine progress;
  SoakOptions options;
  options.operations = arguments.operations;
  options.seconds = arguments.seconds;
  options.seed = static_cast<std::uint64_t>(arguments.seed);
  options.threads = arguments.threads;
  options.progress = [&](std::int64_t done) {
    progress.update(arguments.seconds > 0 ? fmt::format("{}: {} operations", name, done)
                                          : fmt::format("{}: {} of {} operations", name, done, arguments.operations));
  };
  return soak(model, options);
}

void print_report(const SoakReport& report, const Model& model, const std::string& name,
                  const SoakArguments& arguments) {
  fmt::print("{}, {} kernels: {} operations on {} caches in {:.1f} s\n", name, model.kernels(), report.last_operation,
             report.caches, report.seconds);
  std::string kinds;
  for (const auto& [kind, count] : report.operations) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", kind, count);
  }
  fmt::print("  {}\n", kinds);
  fmt::print("  {} sequences of {} tokens in all computed again, {} calls refused as they had to be, at most {}\n",
             report.checks, report.checked_tokens, report.refusals,
             byte_text(static_cast<double>(report.largest_bytes)));
  if (report.difference.empty()) return;
  fmt::print("  DIFFERENCE: seed {}, operation {}, {} {}: {}\n", arguments.seed, report.last_operation, report.kind,
             report.doing, report.difference);
  fmt::print("  again with: skim soak --model {} --kernels {} --ops {} --seed {} --threads {}\n", name, model.kernels(),
             report.last_operation, arguments.seed, arguments.threads);
}

nlohmann::ordered_json json_of(const SoakReport& report, const Model& model, const std::string& name) {
  nlohmann::ordered_json json = {{"model", name},
                                 {"kernels", model.kernels()},
                                 {"operations", report.operations},
                                 {"last_operation", report.last_operation},
                                 {"caches", report.caches},
                                 {"checks", report.checks},
                                 {"checked_tokens", report.checked_tokens},
                                 {"refusals", report.refusals},
                                 {"largest_bytes", report.largest_bytes},
                                 {"seconds", report.seconds},
                                 {"difference", nullptr}};
  if (!report.difference.empty()) {
    json["difference"] = {{"kind", report.kind}, {"doing", report.doing}, {"what", report.difference}};
  }
  return json;
}

void soak_models(SoakArguments& arguments, bool& failed) {
  if (!arguments.seeded) arguments.seed = random_seed();
  // At once, for the case that the run does not live to print it.
  fmt::print(arguments.json ? stderr : stdout, "seed {}\n", arguments.seed);
  std::fflush(stdout);
  nlohmann::ordered_json reports = nlohmann::ordered_json::array();
  for (const std::string& name : arguments.models) {
    const Model model(open_model(name), {.kernels = arguments.kernels});
    const SoakReport report = soak_model(model, name, arguments);
    failed = failed || !report.difference.empty();
    if (arguments.json) {
      reports.push_back(json_of(report, model, name));
    } else {
      print_report(report, model, name, arguments);
    }
  }
  if (arguments.json) {
    const nlohmann::ordered_json all = {{"seed", arguments.seed}, {"threads", arguments.threads}, {"models", reports}};
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!failed) {
    fmt::print("no difference\n");
  }
}

}  // namespace

void add_soak(CLI::App& app, bool& failed) {
  const auto arguments = std::make_shared<SoakArguments>();
  CLI::App* command =
      app.add_subcommand("soak", "Work caches with random operations and check them against fresh ones.");
  command->add_option("--model", arguments->models,
                      std::string("Default: the two tiny synthetic models, one after the other. ") + kModelHelp);
  command->add_option("--kernels", arguments->kernels, "Kernel set, e.g. reference; default: the fastest here");
  CLI::Option* operations =
      command->add_option("--ops", arguments->operations, "Operations for each model; default 2000")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_option("--seconds", arguments->seconds, "Time for each model, instead of a number of operations")
      ->check(CLI::Range(0.1, 1e9))
      ->excludes(operations);
  CLI::Option* seed =
      command->add_option("--seed", arguments->seed, "The same seed draws the same operations; default: random")
          ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  command->add_option("--threads", arguments->threads, "Most threads of a forward call; default 2")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->footer(
      "Sequences are added, extended in batches with others, drafted for, forked, truncated, removed; batches are "
      "dropped half way, limits are run into. Now and then, and at the end, a fresh sequence is fed the same tokens in "
      "pieces of other lengths: all outputs, and those of a few more tokens, must be the same bit for bit.\n"
      "Exit status 1 with seed, operation and place of the first difference.");
  command->callback([arguments, seed, &failed] {
    arguments->seeded = seed->count() > 0;
    soak_models(*arguments, failed);
  });
}

}  // namespace skim::cli

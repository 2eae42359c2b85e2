// skim bench: how fast operations and layers run, beside what the machine could do.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "bench/run.hpp"
#include "bench/shapes.hpp"
#include "commands.hpp"
#include "model_argument.hpp"
#include "output_file.hpp"

namespace skim::cli {
namespace {

using namespace skim::bench;

struct BenchArguments {
  std::vector<std::string> models = {"synthetic:v41-flash", "synthetic:v32"};
  std::vector<std::string> operations, modes = {"decode", "prefill"};
  std::vector<std::string> contexts = {"4K", "32K", "128K", "512K", "1M"};
  std::vector<std::string> layers;
  std::int64_t tokens = 512;
  std::string kernels, compare, json;
  Pace pace;
  int threads = 0;
  bool with_operations = false, with_layers = false, with_memory = false;

  /// --ops and --layers without a value hold one empty text.
  bool names_layers() const { return !layers.empty() && !layers[0].empty(); }
};

/// "4096", "4K" or "1M"; -1 if it is none of these.
std::int64_t token_count(const std::string& text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (error != std::errc() || count < 0 || count > most) return -1;
  if (unit == "K") count <<= 10;
  if (unit == "M") count <<= 20;
  return (unit.empty() || unit == "K" || unit == "M") && count <= most ? count : -1;
}

std::string check_token_count(const std::string& text) {
  return token_count(text) >= 0 ? "" : "is " + text + ", expected tokens from 0 to 1024M, e.g. 4096, 4K or 1M";
}

LayerOptions layer_options(const BenchArguments& arguments, const Config& config) {
  const auto has_mode = [&](const char* mode) {
    return std::find(arguments.modes.begin(), arguments.modes.end(), mode) != arguments.modes.end();
  };
  LayerOptions options;
  if (arguments.names_layers()) {
    for (const std::string& layer : arguments.layers) options.layers.push_back(std::stoi(layer));
  } else {
    options.layers = layers_of_each_role(config);
  }
  for (const std::string& context : arguments.contexts) options.contexts.push_back(token_count(context));
  options.decode = has_mode("decode");
  options.prefill = has_mode("prefill");
  options.tokens = arguments.tokens;
  return options;
}

/// Those that score keys, whose memory grows with the context or is read all over.
std::vector<int> scoring_layers(const Config& config) {
  std::vector<int> layers = layers_of_each_role(config);
  std::erase_if(layers, [&](int layer) {
    const Role role = layer_role(config, layer).role;
    return role != Role::full && role != Role::reindex;
  });
  return layers;
}

void bench(const BenchArguments& arguments) {
  check_output(arguments.json);
  std::vector<const KernelSet*> sets = {&choose_kernel_set(arguments.kernels)};
  if (!arguments.compare.empty()) sets.push_back(&choose_kernel_set(arguments.compare));
  std::vector<BenchModel> models;
  for (const std::string& name : arguments.models) models.push_back({name, open_model(name)});
  check_operations(models, arguments.operations);
  const bool everything = !arguments.with_operations && !arguments.with_layers && !arguments.with_memory;

  nlohmann::ordered_json memory = nlohmann::ordered_json::array();
  if (everything || arguments.with_memory) {
    for (const BenchModel& model : models) {
      LayerOptions options = layer_options(arguments, model.checkpoint.config());
      if (!arguments.names_layers()) options.layers = scoring_layers(model.checkpoint.config());
      for (const auto& entry : bench_memory(model, options, std::string(sets[0]->name), arguments.threads)) {
        memory.push_back(entry);
      }
    }
  }

  Context context(arguments.threads);
  Ceilings ceilings(context);
  Report report(ceilings);
  const BenchRun run{sets, arguments.pace, context, ceilings, report};
  for (const BenchModel& model : models) {
    if (everything || arguments.with_operations) bench_operations(run, model, arguments.operations);
    if (everything || arguments.with_layers) {
      bench_layers(run, model, layer_options(arguments, model.checkpoint.config()));
    }
  }
  report.print_ceilings();
  nlohmann::ordered_json all = report.json();
  all["memory"] = std::move(memory);
  if (!arguments.json.empty()) write_text(arguments.json, all.dump(1) + "\n");
}

void add_subject_options(CLI::App& command, BenchArguments& arguments) {
  command.add_option("--model", arguments.models,
                     std::string("Default: the two released shapes, one after the other. ") + kModelHelp);
  command
      .add_option("--ops", arguments.operations,
                  "Single operations: all, or those whose names begin like this, e.g. attend or \"linear 1 x\"")
      ->delimiter(',')
      ->expected(0, -1);
  command
      .add_option("--layers", arguments.layers,
                  "Whole layers: the first of each role and ratio, or these; sources of each must be among them")
      ->delimiter(',')
      ->expected(0, -1)
      ->check(CLI::Range(0, 1 << 20));
  command.add_flag("--memory", arguments.with_memory,
                   "Resident size with the longest context, for layers that score keys or those of --layers");
  command
      .add_option("--context", arguments.contexts,
                  "Contexts planted before layers run, e.g. 4K,1M; default 4K,32K,128K,512K,1M")
      ->delimiter(',')
      ->check(check_token_count);
  command.add_option("--mode", arguments.modes, "What layers do: decode, prefill or both, which is the default")
      ->delimiter(',')
      ->check(CLI::IsMember({"decode", "prefill"}));
  command.add_option("--tokens", arguments.tokens, "Tokens of a prefill; default 512")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
}

}  // namespace

void add_bench(CLI::App& app) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "Time operations and layers beside what the machine could do.");
  add_subject_options(*command, *arguments);
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
  command->footer(
      "Without --ops, --layers and --memory: all three. What is counted, and how ceilings are measured: "
      "docs/bench.md.\n"
      "Example: skim bench --model synthetic:v41-flash --layers 20,24 --context 16K,1M --mode decode");
  command->callback([arguments, command] {
    arguments->with_operations = command->count("--ops") > 0;
    // Beside --memory, --layers says whose.
    arguments->with_layers = command->count("--layers") > 0 && !arguments->with_memory;
    bench(*arguments);
  });
}

}  // namespace skim::cli

// skim run: prefill and decode some layers, and say what they did.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "commands.hpp"
#include "model_argument.hpp"
#include "output_file.hpp"
#include "progress.hpp"
#include "run_input.hpp"
#include "skim/skim.hpp"

namespace skim::cli {
namespace {

struct RunArguments {
  std::string model, input, output, kernels;
  std::vector<int> layers;
  std::int64_t tokens = -1, decode = 0, context = 0;
  int threads = 0;
  bool json = false;
};

constexpr std::int64_t kDefaultTokens = 1024;
constexpr std::int64_t kPrefillChunk = 4096;  // bounds the memory of inputs and outputs in flight

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct LayerStats {
  double prefill_seconds = 0, decode_seconds = 0;
  std::int64_t selected_total = 0, selected_queries = 0, selected_last = 0;

  double selected_mean() const {
    return selected_queries > 0 ? static_cast<double>(selected_total) / static_cast<double>(selected_queries) : 0;
  }
};

/// Counts selected positions and reports progress.
class RunTrace final : public Trace {
 public:
  RunTrace(std::map<int, LayerStats>& stats, ProgressLine& progress) : stats_(stats), progress_(progress) {}

  std::string stage;

  void selection(const TraceSelection& event) override {
    LayerStats& stats = stats_[event.layer];
    stats.selected_last = static_cast<std::int64_t>(event.chosen.size());
    stats.selected_total += stats.selected_last;
    ++stats.selected_queries;
  }
  void progress(int layer, std::int64_t done, std::int64_t total) override {
    progress_.update(fmt::format("{}, layer {}: {} of {} tokens", stage, layer, done, total));
  }

 private:
  std::map<int, LayerStats>& stats_;
  ProgressLine& progress_;
};

class Run {
 public:
  explicit Run(const RunArguments& arguments)
      : arguments_(arguments),
        start_(std::chrono::steady_clock::now()),
        checkpoint_(open_model(arguments.model)),
        input_(arguments.input, input_layers(), hidden_dim(checkpoint_.config())),
        prefill_(prefill_tokens()),
        model_(checkpoint_,
               {.layers = arguments.layers,
                .kernels = arguments.kernels,
                .progress = [this](int layer) { progress_.update(fmt::format("loading layer {}", layer)); }}),
        load_seconds_(seconds_since(start_)),
        cache_(model_, {.max_tokens = context(), .threads = arguments.threads}),
        sequence_(cache_.add()) {
    if (!arguments.output.empty()) {
      const std::int64_t elements = (prefill_ + arguments.decode) * hidden_dim(model_.config());
      for (const int layer : model_.layers()) outputs_[layer].resize(static_cast<std::size_t>(elements));
    }
  }

  void execute() {
    RunTrace trace(stats_, progress_);
    trace.stage = "prefill";
    for (std::int64_t first = 0; first < prefill_; first += kPrefillChunk) {
      step(first, std::min(kPrefillChunk, prefill_ - first), trace, &LayerStats::prefill_seconds);
    }
    trace.stage = "decode";
    for (std::int64_t i = 0; i < arguments_.decode; ++i) step(prefill_ + i, 1, trace, &LayerStats::decode_seconds);
    progress_.clear();
  }

  void write_output() const {
    if (arguments_.output.empty()) return;
    std::vector<TensorToWrite> tensors;
    for (const auto& [layer, values] : outputs_) {
      tensors.push_back({fmt::format("layer.{}.out", layer),
                         DType::bf16,
                         {prefill_ + arguments_.decode, hidden_dim(model_.config())},
                         std::as_bytes(std::span(values))});
    }
    write_safetensors(arguments_.output, tensors,
                      {{"format", "skim-run/1"}, {"model", std::string(model_type(model_.config()))}});
  }

  void print_table() const {
    fmt::print("{}: {} kernels, loaded in {:.1f} s, weights {}\n", arguments_.model, model_.kernels(), load_seconds_,
               byte_text(static_cast<double>(model_.weight_bytes())));
    fmt::print("{} tokens prefilled, {} decoded; context {}, {}\n\n", prefill_, arguments_.decode, context(),
               rotation_text());
    fmt::print("{:>5}  {:<8} {:>5}  {:>9} {:>12}  {:>13} {:>8}  {:>10}\n", "layer", "role", "ratio", "prefill",
               "decode/token", "selected mean", "at last", "cache");
    for (const int layer : model_.layers()) {
      const LayerRole role = layer_role(model_.config(), layer);
      const LayerStats& stats = stats_.at(layer);
      const LayerStats& source = selection_stats(layer);
      const bool selects = role.index_source >= 0;
      fmt::print("{:>5}  {:<8} {:>5}  {:>7.3f} s {:>9.2f} ms  {:>13} {:>8}  {:>10}\n", layer, role_name(role.role),
                 role.ratio, stats.prefill_seconds, decode_seconds(stats) * 1e3,
                 selects ? fmt::format("{:.1f}", source.selected_mean()) : "-",
                 selects ? std::to_string(source.selected_last) : "-",
                 byte_text(static_cast<double>(layer_cache_bytes(layer))));
    }
    fmt::print("\ncache {} in pages, workspace {}\n", byte_text(static_cast<double>(cache_.bytes())),
               byte_text(static_cast<double>(cache_.workspace_bytes())));
  }

  void print_json() const {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (const int layer : model_.layers()) {
      const LayerRole role = layer_role(model_.config(), layer);
      const LayerStats& stats = stats_.at(layer);
      const LayerStats& source = selection_stats(layer);
      layers.push_back({{"layer", layer},
                        {"role", role_name(role.role)},
                        {"ratio", role.ratio},
                        {"prefill_seconds", stats.prefill_seconds},
                        {"decode_seconds_per_token", decode_seconds(stats)},
                        {"selected_mean", source.selected_mean()},
                        {"selected_last", source.selected_last},
                        {"cache_bytes", layer_cache_bytes(layer)}});
    }
    const nlohmann::ordered_json report = {{"model", arguments_.model},
                                           {"kernels", model_.kernels()},
                                           {"prefill_tokens", prefill_},
                                           {"decode_tokens", arguments_.decode},
                                           {"context", context()},
                                           {"yarn", uses_yarn(model_.config(), context())},
                                           {"theta", thetas()},
                                           {"load_seconds", load_seconds_},
                                           {"weight_bytes", model_.weight_bytes()},
                                           {"cache_bytes", cache_.bytes()},
                                           {"workspace_bytes", cache_.workspace_bytes()},
                                           {"layers", layers}};
    fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }

 private:
  /// What the cache is made for: as told, else the model's own context; never less than what is run.
  std::int64_t context() const {
    const std::int64_t wanted = arguments_.context > 0 ? arguments_.context : max_positions(checkpoint_.config());
    return std::max(wanted, prefill_ + arguments_.decode);
  }

  /// Bases of the rotation, by the names of their fields.
  std::map<std::string, double> thetas() const {
    std::map<std::string, double> thetas;
    Config config = checkpoint_.config();
    for (const ConfigField& field : config_fields(config)) {
      if (field.name.ends_with("rope_theta")) thetas.emplace(field.name, *std::get<double*>(field.value));
    }
    return thetas;
  }

  std::string rotation_text() const {
    std::string text;
    for (const auto& [name, theta] : thetas()) text += fmt::format("{} {}, ", name, theta);
    return text + (uses_yarn(checkpoint_.config(), context()) ? "YaRN on" : "YaRN off");
  }

  std::vector<int> input_layers() const {
    if (!arguments_.layers.empty()) return arguments_.layers;
    std::vector<int> all(static_cast<std::size_t>(backbone_layers(checkpoint_.config())));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  /// From --tokens, or what the input file leaves after decoding.
  std::int64_t prefill_tokens() const {
    const std::int64_t available = input_.rows().value_or(kDefaultTokens + arguments_.decode);
    const std::int64_t prefill = arguments_.tokens >= 0 ? arguments_.tokens : available - arguments_.decode;
    if (input_.rows() && (prefill < 0 || prefill + arguments_.decode > available)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} rows, expected {} to prefill and {} to decode", arguments_.input, available,
                              std::max<std::int64_t>(prefill, 0), arguments_.decode));
    }
    if (prefill + arguments_.decode < 1)
      throw Error(ErrorCode::invalid_argument,
                  "--tokens 0 and --decode 0: nothing to run, expected at least one token");
    if (arguments_.context > 0 && arguments_.context < prefill + arguments_.decode) {
      throw Error(ErrorCode::invalid_argument, fmt::format("--context {}: fewer than the {} tokens to run",
                                                           arguments_.context, prefill + arguments_.decode));
    }
    return prefill;
  }

  /// Runs `count` tokens from `position` on through all layers.
  void step(std::int64_t position, std::int64_t count, RunTrace& trace, double LayerStats::*seconds) {
    const std::array shape{count, hidden_dim(model_.config())};
    std::vector<bf16> x(static_cast<std::size_t>(shape[0] * shape[1])), out(x.size());
    Batch batch = cache_.begin({{sequence_, count}});
    for (const int layer : model_.layers()) {
      input_.read(layer, position, View<bf16, 2>(x.data(), shape));
      const auto start = std::chrono::steady_clock::now();
      model_.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape), &trace);
      stats_[layer].*seconds += seconds_since(start);
      if (!outputs_.empty()) std::copy(out.begin(), out.end(), outputs_[layer].begin() + position * shape[1]);
    }
    batch.commit();
  }

  /// Of the layer whose selection this one uses.
  const LayerStats& selection_stats(int layer) const {
    const int source = layer_role(model_.config(), layer).index_source;
    return stats_.at(source >= 0 ? source : layer);
  }
  double decode_seconds(const LayerStats& stats) const {
    return arguments_.decode > 0 ? stats.decode_seconds / static_cast<double>(arguments_.decode) : 0;
  }
  std::int64_t layer_cache_bytes(int layer) const {
    const int layers[] = {layer};
    return cache_cost(model_.config(), layers).bytes_at(prefill_ + arguments_.decode);
  }

  const RunArguments& arguments_;
  ProgressLine progress_;
  std::chrono::steady_clock::time_point start_;
  Checkpoint checkpoint_;
  RunInput input_;  // checked before weights are loaded, which may take minutes
  std::int64_t prefill_;
  Model model_;
  double load_seconds_;
  KvCache cache_;
  SequenceId sequence_;
  std::map<int, LayerStats> stats_;
  std::map<int, std::vector<bf16>> outputs_;
};

void run(const RunArguments& arguments) {
  check_output(arguments.output);
  Run running(arguments);
  running.execute();
  running.write_output();
  if (arguments.json) {
    running.print_json();
  } else {
    running.print_table();
  }
}

}  // namespace

void add_run(CLI::App& app) {
  const auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Prefill and decode some layers on given or synthetic hidden states.");
  command->add_option("--model", arguments->model, kModelHelp)->required();
  command
      ->add_option("--layers", arguments->layers,
                   "Layers to run, e.g. 0,2,3; sources of each must be among them. "
                   "Default: all backbone layers")
      ->delimiter(',');
  command->add_option("--tokens", arguments->tokens, "Tokens to prefill; default: all of --input, or 1024")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  command->add_option("--decode", arguments->decode, "Tokens to decode one by one after that; default 0")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  command
      ->add_option(
          "--context", arguments->context,
          "Context the cache is made for, at least as many tokens as are run; default: the longest the model is made "
          "for. V3.2 stretches its rotation (YaRN) if this exceeds the context it was trained for, whatever is run")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command->add_option("--input", arguments->input,
                      "Safetensors file with layer.<i>.x for each layer, or x for all: BF16 [tokens, dim], normalized");
  command->add_option("--output", arguments->output,
                      "Write layer.<i>.out, BF16 [tokens, dim], to this safetensors file");
  command->add_option("--kernels", arguments->kernels, "Kernel set, e.g. reference; default: the fastest here");
  command->add_option("--threads", arguments->threads, "Threads; default: one per processor")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->footer(
      "Each layer gets its own hidden states: what lies between attention layers is not part of this program.\n"
      "Example: skim run --model synthetic:v41-flash --layers 0,2,3,20,21,24 --tokens 512 --decode 8");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace skim::cli

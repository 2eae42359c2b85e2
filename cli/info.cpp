// skim info: what a checkpoint holds and what caching it costs.
#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "messages.hpp"
#include "model_argument.hpp"
#include "skim/cache.hpp"
#include "skim/checkpoint.hpp"
#include "skim/config.hpp"
#include "skim/config_fields.hpp"
#include "skim/error.hpp"
#include "skim/machine.hpp"

namespace skim::cli {
namespace {

std::string shape_text(const TensorInfo& info) {
  Tensor tensor{info.dtype, info.shape, {}, nullptr};
  return tensor.shape_text();
}

void print_tensor(const TensorInfo& info) {
  fmt::print("    {:<62} {:<8} {:<16} {:>12}\n", printable(info.name), dtype_name(info.dtype), shape_text(info),
             byte_text(static_cast<double>(info.bytes)));
}

/// A safetensors file without a configuration: just its tensors.
void print_plain_file(const SafetensorsFile& file) {
  for (const auto& [key, value] : file.metadata()) fmt::print("  {} = {}\n", printable(key), printable(value));
  std::int64_t total = 0;
  for (const TensorInfo& info : file.tensors()) {
    print_tensor(info);
    total += info.bytes;
  }
  fmt::print("  {} tensors, {}\n", file.tensors().size(), byte_text(static_cast<double>(total)));
}

std::string role_text(const LayerRole& role, int layer) {
  std::string text = fmt::format("{:<8} ratio {}", role_name(role.role), role.ratio);
  if (role.kv_source >= 0 && role.kv_source != layer) text += fmt::format(", rows of layer {}", role.kv_source);
  if (role.index_source >= 0 && role.index_source != layer) {
    text += fmt::format(", selection of layer {}", role.index_source);
  }
  if (role.candidate_source >= 0) text += fmt::format(", candidates of layer {}", role.candidate_source);
  if (role.is_candidate_source) text += ", candidate source";
  return text;
}

void print_cache_cost(const Config& config) {
  std::vector<int> layers(static_cast<std::size_t>(backbone_layers(config)));
  std::iota(layers.begin(), layers.end(), 0);
  const CacheCost cost = cache_cost(config, layers);
  fmt::print("cache of the backbone: {:g} bytes per token and {} per sequence; {} at 128K tokens, {} at 1M\n",
             cost.bytes_per_token, byte_text(static_cast<double>(cost.bytes_fixed)),
             byte_text(static_cast<double>(cost.bytes_at(std::int64_t{128} << 10))),
             byte_text(static_cast<double>(cost.bytes_at(std::int64_t{1} << 20))));
}

/// Tensors by the layer they belong to; -1: not attention.
std::map<int, std::vector<TensorInfo>> tensors_by_layer(const Checkpoint& checkpoint) {
  std::map<int, std::vector<TensorInfo>> layers;
  for (const TensorInfo& info : checkpoint.tensors()) {
    layers[layer_of_tensor(checkpoint.config(), info.name)].push_back(info);
  }
  return layers;
}

void print_layers(const Checkpoint& checkpoint, std::vector<int>& present) {
  std::int64_t total = 0, count = 0;
  for (const auto& [layer, tensors] : tensors_by_layer(checkpoint)) {
    std::int64_t bytes = 0;
    for (const TensorInfo& info : tensors) bytes += info.bytes;
    total += bytes;
    count += static_cast<std::int64_t>(tensors.size());
    if (layer < 0) {
      fmt::print("  other tensors: {}, {}\n", tensors.size(), byte_text(static_cast<double>(bytes)));
      continue;
    }
    present.push_back(layer);
    fmt::print("  layer {:<3} {}; {} tensors, {}\n", layer, role_text(layer_role(checkpoint.config(), layer), layer),
               tensors.size(), byte_text(static_cast<double>(bytes)));
    for (const TensorInfo& info : tensors) print_tensor(info);
  }
  fmt::print("{} tensors, {}\n", count, byte_text(static_cast<double>(total)));
}

/// Every field of the configuration, in lines of at most 120 characters where values allow.
void print_fields(Config config) {
  constexpr std::size_t kLineWidth = 120;
  std::string line = "configuration:";
  for (const ConfigField& field : config_fields(config)) {
    const std::string text = fmt::format(" {} {}", field.name, field.text());
    if (line.size() + text.size() > kLineWidth) {
      fmt::print("{}\n", line);
      line = " ";
    }
    line += text + ";";
  }
  line.back() = '\n';
  fmt::print("{}", line);
}

void print_checkpoint(const Checkpoint& checkpoint) {
  fmt::print("{}\n", describe(checkpoint.config()));
  print_fields(checkpoint.config());
  for (const std::string& line : checkpoint.assumed()) fmt::print("assumed: {}\n", printable(line));
  std::vector<int> present;
  print_layers(checkpoint, present);
  print_cache_cost(checkpoint.config());
  for (const TensorProblem& problem : checkpoint.problems(present)) {
    fmt::print("problem: {}: {}\n", printable(problem.name), problem.what);
  }
}

bool has_config(const std::filesystem::path& path) {
  const auto metadata = SafetensorsFile::open(path).metadata();
  const auto format = metadata.find("format");
  return (format != metadata.end() && format->second == "attention-case/1") ||
         std::filesystem::exists(path.parent_path() / "config.json");
}

void print_machine() {
  fmt::print("{} processors\nkernel sets, best first:\n", available_processors());
  bool best = true;
  for (const KernelSetInfo& set : kernel_set_infos()) {
    std::string state = set.why_not;
    if (state.empty()) state = std::exchange(best, false) ? "used unless another is asked for" : "available";
    fmt::print("  {:<10} {:<46} {}\n", set.name, set.description, state);
  }
}

void info(const std::string& path) {
  if (std::filesystem::is_regular_file(path) && !has_config(path)) {
    fmt::print("{}: no configuration beside it\n", path);
    print_plain_file(SafetensorsFile::open(path));
    return;
  }
  print_checkpoint(open_model(path));
}

}  // namespace

void add_info(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  const auto machine = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("info", "Show what a checkpoint holds: layers, roles, tensors, cache cost.");
  CLI::Option* model = command->add_option("MODEL", *path, kModelHelp);
  command->add_flag("--machine", *machine, "Instead show the kernel sets, and which of them this machine can run.")
      ->excludes(model);
  command->footer("Reads headers only. Tensors that a layer lacks, or has no use for, are listed as problems.");
  command->callback([path, machine, model] {
    if (*machine) {
      print_machine();
    } else if (model->count() == 0) {
      throw CLI::RequiredError("MODEL");
    } else {
      info(*path);
    }
  });
}

}  // namespace skim::cli

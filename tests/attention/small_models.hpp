// Small models with made-up weights that between them have every role and unusual shapes.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "skim/skim.hpp"

namespace skim::test {

/// Named configurations of every model that between them have every role and unusual shapes.
Config small_config(const std::string& name);
/// Their names.
std::vector<std::string> small_config_names();

/// Names of the kernel sets that run here.
std::vector<std::string> available_sets();

/// Names of a kernel set and a configuration.
using SetAndConfig = std::tuple<std::string, std::string>;
inline std::string joined(const SetAndConfig& names) { return std::get<0>(names) + "_" + std::get<1>(names); }
/// The set is much slower than others: tests of all combinations try only some with it.
inline bool is_slow(const SetAndConfig& names) { return std::get<0>(names) == "reference"; }
/// Made-up weights, all layers.
Model small_model(const SetAndConfig& names);

/// One layer of v41-tiny's shape with bf16 weights; a ratio makes it a source of its own.
V41Config one_layer(int ratio);

/// Synthetic weights with some bf16 tensors exchanged, by way of a temporary file.
Checkpoint with_tensors(const Config& config, const std::map<std::string, std::vector<bf16>>& changed);

}  // namespace skim::test

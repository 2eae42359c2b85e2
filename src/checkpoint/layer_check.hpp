// Comparing a checkpoint with what its configuration asks for.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/tensor_source.hpp"
#include "skim/checkpoint.hpp"
#include "skim/config.hpp"

namespace skim {

/// Checkpoint::problems.
std::vector<TensorProblem> check_layers(const Config& config, const TensorSource& source, std::span<const int> layers);

}  // namespace skim

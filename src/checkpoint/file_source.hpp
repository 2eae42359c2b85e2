// Tensors in safetensors files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/tensor_source.hpp"
#include "skim/safetensors.hpp"

namespace skim {

/// One file. Only tensors whose name starts with `prefix` are there, under the rest of their name.
std::shared_ptr<const TensorSource> make_file_source(const SafetensorsFile& file, const std::string& prefix);

/// The shards that model.safetensors.index.json (`index`) names. A shard is opened when one of its tensors is first
/// asked for, so that a part of the layers needs only their shards.
std::shared_ptr<const TensorSource> make_sharded_source(const std::filesystem::path& index);

}  // namespace skim

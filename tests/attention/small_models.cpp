#include "attention/small_models.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "skim/config_fields.hpp"
#include "kernels/registry.hpp"
#include "named_v41.hpp"

namespace skim::test {
namespace {

/// Every role in seven layers, with a draft layer; YaRN.
V41Config tiny() { return named_v41("v41-tiny"); }

/// Odd ratios, 6 heads, window 5, top 5, no YaRN, no candidates, widths that are no multiples of 32.
V41Config odd() {
  V41Config c = tiny();
  c.dim = 100;
  c.n_heads = 6;
  c.o_groups = 3;
  c.o_lora_rank = 24;
  c.q_lora_rank = 40;
  c.head_dim = 96;
  c.window_size = 5;
  c.original_seq_len = 0;
  c.compress_ratios = {0, 1, 1, 3, 3, 3, 5, 0};
  c.kv_source_layers = {1, 3, 6};
  c.index_source_layers = {1, 3, 5, 6};
  c.index_n_heads = 3;
  c.index_head_dim = 32;
  c.index_topk = 5;
  c.candidate_source_layer = -1;
  return c;
}

/// bf16 weights, candidates on a ratio-2 layer with blocks of 3, window 1, one head.
V41Config narrow() {
  V41Config c = tiny();
  c.n_heads = 1;
  c.o_groups = 1;
  c.window_size = 1;
  c.compress_ratios = {1, 2, 2, 2, 2, 0, 2, 0};
  c.kv_source_layers = {0, 1, 4};
  c.index_source_layers = {0, 1, 3, 4, 6};
  c.index_topk = 4;
  c.candidate_source_layer = 1;
  c.candidate_topk_blocks = 3;
  c.candidate_block_size = 3;
  c.weight_type = WeightType::bf16;
  return c;
}

/// float32 scales, 3 heads, values narrower than keys, top 5, every index element rotated; YaRN.
V32Config odd_v32() {
  V32Config c = std::get<V32Config>(named_config("v32-tiny"));
  c.dim = 100;
  c.n_heads = 3;
  c.q_lora_rank = 40;
  c.kv_lora_rank = 256;
  c.qk_nope_head_dim = 24;
  c.qk_rope_head_dim = 32;
  c.v_head_dim = 20;
  c.index_n_heads = 3;
  c.index_head_dim = 32;
  c.index_topk = 5;
  c.ue8m0_scales = false;
  return c;
}

}  // namespace

Config small_config(const std::string& name) {
  if (name == "v32_tiny") return named_config("v32-tiny");
  if (name == "v32_odd") return odd_v32();
  if (name == "v4_tiny") return named_config("v4-tiny");
  if (name == "odd") return odd();
  return name == "narrow" ? narrow() : tiny();
}

std::vector<std::string> small_config_names() { return {"tiny", "odd", "narrow", "v32_tiny", "v32_odd", "v4_tiny"}; }

std::vector<std::string> available_sets() {
  std::vector<std::string> names;
  for (const KernelSet& set : kernel_sets()) {
    if (is_available(set)) names.emplace_back(set.name);
  }
  return names;
}

Model small_model(const SetAndConfig& names) {
  const Config config = small_config(std::get<1>(names));
  std::vector<int> layers(static_cast<std::size_t>(layer_count(config)));
  std::iota(layers.begin(), layers.end(), 0);
  return Model(Checkpoint::synthetic(config), {.layers = layers, .kernels = std::get<0>(names)});
}

V41Config one_layer(int ratio) {
  V41Config c = tiny();
  c.n_layers = 1;
  c.n_draft_layers = 0;
  c.compress_ratios = {ratio};
  c.kv_source_layers = c.index_source_layers = ratio > 0 ? std::vector<int>{0} : std::vector<int>{};
  c.candidate_source_layer = -1;
  c.weight_type = WeightType::bf16;
  return c;
}

Checkpoint with_tensors(const Config& config, const std::map<std::string, std::vector<bf16>>& changed) {
  static std::atomic<int> counter = 0;
  const Checkpoint base = Checkpoint::synthetic(config);
  std::vector<Tensor> tensors;
  std::vector<TensorToWrite> list;
  for (const TensorInfo& info : base.tensors()) {
    const auto found = changed.find(info.name);
    tensors.push_back(base.tensor(info.name));
    list.push_back(found == changed.end()
                       ? TensorToWrite{info.name, info.dtype, info.shape, tensors.back().bytes}
                       : TensorToWrite{info.name, DType::bf16, info.shape, std::as_bytes(std::span(found->second))});
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("skim-test-{}-{}", ::getpid(), counter++);
  std::filesystem::create_directory(folder);
  write_safetensors(folder / "model.safetensors", list, {});
  std::ofstream(folder / "config.json") << config_json(config);
  Checkpoint checkpoint = Checkpoint::open(folder);
  std::filesystem::remove_all(folder);  // the mapping stays
  return checkpoint;
}

}  // namespace skim::test

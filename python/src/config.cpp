// Configurations and what follows from them.
#include "skim/config.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "module.hpp"
#include "skim/cache.hpp"
#include "skim/error.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace skim::python {
namespace {

std::string weight_type_name(WeightType type) { return type == WeightType::bf16 ? "bf16" : "fp8"; }

WeightType weight_type(const std::string& name) {
  if (name == "bf16") return WeightType::bf16;
  if (name == "fp8") return WeightType::fp8;
  throw Error(ErrorCode::invalid_argument, "weight_type is '" + name + "', expected 'bf16' or 'fp8'");
}

/// Fields and properties that both models have.
template <class Model>
nb::class_<Model> bind_model(nb::module_& module, const char* name, const char* doc) {
  return nb::class_<Model>(module, name, doc)
      .def(
          "__init__", [](Model* self, const Model& other) { new (self) Model(other); }, "other"_a, "A copy.")
      .def_rw("dim", &Model::dim, "Width of the hidden state.")
      .def_rw("n_layers", &Model::n_layers, "Backbone layers.")
      .def_rw("n_draft_layers", &Model::n_draft_layers, "Layers after the backbone.")
      .def_rw("n_heads", &Model::n_heads)
      .def_rw("q_lora_rank", &Model::q_lora_rank)
      .def_rw("norm_eps", &Model::norm_eps)
      .def_rw("rope_theta", &Model::rope_theta)
      .def_rw("rope_factor", &Model::rope_factor)
      .def_rw("beta_fast", &Model::beta_fast)
      .def_rw("beta_slow", &Model::beta_slow)
      .def_rw("original_seq_len", &Model::original_seq_len, "0: no YaRN.")
      .def_rw("index_n_heads", &Model::index_n_heads)
      .def_rw("index_head_dim", &Model::index_head_dim)
      .def_rw("index_topk", &Model::index_topk, "Positions a query attends to.")
      .def_prop_rw(
          "weight_type", [](const Model& self) { return weight_type_name(self.weight_type); },
          [](Model& self, const std::string& type) { self.weight_type = weight_type(type); },
          "'fp8' or 'bf16', of made-up weights.")
      .def_prop_ro("model_type", [](const Model& self) { return model_type(self); })
      .def(nb::self == nb::self);
}

void bind_roles(nb::module_& module) {
  nb::class_<LayerRole>(module, "LayerRole", "What a layer does about compressed positions; -1: no such layer.")
      .def_prop_ro(
          "role", [](const LayerRole& self) { return role_name(self.role); }, "'window', 'full', 'reindex' or 'reuse'.")
      .def_ro("ratio", &LayerRole::ratio)
      .def_ro("kv_source", &LayerRole::kv_source, "Layer whose rows are attended to.")
      .def_ro("key_source", &LayerRole::key_source, "Layer whose index keys are scored.")
      .def_ro("index_source", &LayerRole::index_source, "Layer whose selection is used.")
      .def_ro("candidate_source", &LayerRole::candidate_source, "Layer whose blocks bound the selection.")
      .def_ro("is_candidate_source", &LayerRole::is_candidate_source);
  module.def("layer_role", &layer_role, "config"_a, "layer"_a);
  module.def("layer_prefix", &layer_prefix, "config"_a, "layer"_a,
             "What the names of a layer's tensors begin with in a checkpoint.");

  nb::class_<CacheCost>(module, "CacheCost", "What caching one sequence costs.")
      .def_ro("bytes_per_token", &CacheCost::bytes_per_token)
      .def_ro("bytes_fixed", &CacheCost::bytes_fixed)
      .def("bytes_at", &CacheCost::bytes_at, "tokens"_a);
  module.def(
      "cache_cost",
      [](const Config& config, const std::vector<int>& layers, std::int64_t rollback) {
        return cache_cost(config, layers, rollback);
      },
      "config"_a, "layers"_a, nb::kw_only(), "rollback"_a = 0, "From the configuration alone.");
}

}  // namespace

void bind_config(nb::module_& module) {
  bind_model<V41Config>(module, "V41Config",
                        "DeepSeek-V4.1 attention. Fields are those of DeepSeek's inference configuration. Lists are "
                        "copies: assign a whole one to change it.")
      .def_rw("head_dim", &V41Config::head_dim)
      .def_rw("rope_head_dim", &V41Config::rope_head_dim)
      .def_rw("o_groups", &V41Config::o_groups)
      .def_rw("o_lora_rank", &V41Config::o_lora_rank)
      .def_rw("window_size", &V41Config::window_size)
      .def_rw("compress_rope_theta", &V41Config::compress_rope_theta)
      .def_rw("compress_ratios", &V41Config::compress_ratios)
      .def_rw("kv_source_layers", &V41Config::kv_source_layers)
      .def_rw("index_source_layers", &V41Config::index_source_layers)
      .def_rw("candidate_source_layer", &V41Config::candidate_source_layer, "-1: no candidate blocks.")
      .def_rw("candidate_topk_blocks", &V41Config::candidate_topk_blocks)
      .def_rw("candidate_block_size", &V41Config::candidate_block_size);
  bind_model<V32Config>(module, "V32Config",
                        "DeepSeek-V3.2 attention. Fields are those of DeepSeek's inference configuration.")
      .def_rw("kv_lora_rank", &V32Config::kv_lora_rank)
      .def_rw("qk_nope_head_dim", &V32Config::qk_nope_head_dim)
      .def_rw("qk_rope_head_dim", &V32Config::qk_rope_head_dim)
      .def_rw("v_head_dim", &V32Config::v_head_dim)
      .def_rw("mscale", &V32Config::mscale)
      .def_rw("ue8m0_scales", &V32Config::ue8m0_scales);
  module.def("named_config", &named_config, "name"_a,
             "'v41-flash', 'v32' (released shapes), 'v41-tiny' or 'v32-tiny' (for trials).");
  module.def(
      "parse_config", [](const std::string& json, const std::string& name) { return parse_config(json, name); },
      "json"_a, "name"_a = "config", "config.json of any model in either spelling, checked; `name` starts messages.");
  bind_roles(module);
}

}  // namespace skim::python

// Configurations and what follows from them.
#include "skim/config.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "module.hpp"
#include "skim/cache.hpp"
#include "skim/config_fields.hpp"
#include "skim/error.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace skim::python {
namespace {

/// Values of fields as Python has them: enumerators are strings.
template <class T>
struct PythonValue {
  using Type = T;
  static T get(const T& value) { return value; }
  static T set(const T& value) { return value; }
};

template <>
struct PythonValue<WeightType> {
  using Type = std::string;
  static std::string get(WeightType type) { return type == WeightType::bf16 ? "bf16" : "fp8"; }
  static WeightType set(const std::string& name) {
    if (name == "bf16") return WeightType::bf16;
    if (name == "fp8") return WeightType::fp8;
    throw Error(ErrorCode::invalid_argument, "weight_type is '" + name + "', expected 'bf16' or 'fp8'");
  }
};

template <>
struct PythonValue<std::vector<IndexerType>> {
  using Type = std::vector<std::string>;
  static Type get(const std::vector<IndexerType>& types) {
    Type names;
    for (const IndexerType type : types) names.emplace_back(type == IndexerType::full ? "full" : "shared");
    return names;
  }
  static std::vector<IndexerType> set(const Type& names) {
    std::vector<IndexerType> types;
    for (const std::string& name : names) {
      if (name != "full" && name != "shared") {
        throw Error(ErrorCode::invalid_argument, "indexer_types has '" + name + "', expected 'full' or 'shared'");
      }
      types.push_back(name == "full" ? IndexerType::full : IndexerType::shared);
    }
    return types;
  }
};

/// Field number `index` of a configuration, which holds a T.
template <class T>
T& value_of(Config& config, std::size_t index) {
  return *std::get<T*>(config_fields(config)[index].value);
}

template <class Model, class T>
void bind_field(nb::class_<Model>& bound, const char* name, std::size_t index) {
  using Value = PythonValue<T>;
  bound.def_prop_rw(
      name,
      [index](const Model& self) {
        Config config = self;
        return Value::get(value_of<T>(config, index));
      },
      [index](Model& self, const typename Value::Type& value) {
        Config config = self;
        value_of<T>(config, index) = Value::set(value);
        self = std::get<Model>(std::move(config));
      });
}

/// Every field by its name, as Python has it.
template <class Model>
nb::dict state_of(const Model& model) {
  Config config = model;
  nb::dict state;
  for (const ConfigField& field : config_fields(config)) {
    const auto get = [](const auto* value) {
      return nb::cast(PythonValue<std::decay_t<decltype(*value)>>::get(*value));
    };
    state[field.name.data()] = std::visit(get, field.value);  // names are literals
  }
  return state;
}

/// The configuration of that state; fields it lacks are as in a new one.
template <class Model>
Model model_of(const nb::dict& state) {
  Config config = Model();
  for (const ConfigField& field : config_fields(config)) {
    if (!state.contains(field.name.data())) continue;
    const nb::object value = state[field.name.data()];
    const auto set = [&](auto* target) {
      using Value = PythonValue<std::decay_t<decltype(*target)>>;
      *target = Value::set(nb::cast<typename Value::Type>(value));
    };
    std::visit(set, field.value);
  }
  return std::get<Model>(std::move(config));
}

std::string text_of(const char* name, const nb::dict& state) {
  std::string text;
  for (const auto& [key, value] : state) {
    text += (text.empty() ? "" : ", ") + nb::cast<std::string>(key) + "=" + nb::cast<std::string>(nb::repr(value));
  }
  return std::string(name) + "(" + text + ")";
}

/// A configuration: its fields come from the table that also reads and writes documents.
template <class Model>
void bind_model(nb::module_& module, const char* name, const char* doc) {
  nb::class_<Model> bound(module, name, doc);
  bound
      .def(
          "__init__", [](Model* self, const Model& other) { new (self) Model(other); }, "other"_a, "A copy.")
      .def("__repr__", [name](const Model& self) { return text_of(name, state_of(self)); })
      .def("__getstate__", [](const Model& self) { return state_of(self); })
      .def("__setstate__", [](Model& self, const nb::dict& state) { new (&self) Model(model_of<Model>(state)); })
      .def_prop_ro("model_type", [](const Model& self) { return model_type(self); })
      .def(
          "to_json", [](const Model& self) { return config_json(self); },
          "In the spelling of DeepSeek's inference configuration; parse_config gives it back.")
      .def(nb::self == nb::self);
  Config blank = Model();
  const std::vector<ConfigField> fields = config_fields(blank);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto bind = [&](auto* value) {
      bind_field<Model, std::remove_pointer_t<decltype(value)>>(bound, fields[i].name.data(), i);
    };
    std::visit(bind, fields[i].value);
  }
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
                        "copies: assign a whole one to change it.");
  bind_model<V32Config>(module, "V32Config",
                        "DeepSeek-V3.2 attention. Fields are those of DeepSeek's inference configuration.");
  bind_model<V4Config>(module, "V4Config",
                       "DeepSeek-V4 attention. Fields are those of DeepSeek's inference configuration.");
  module.def("named_config", &named_config, "name"_a,
             "'v41-flash', 'v32' (released shapes), 'v41-tiny' or 'v32-tiny' (for trials).");
  module.def(
      "parse_config", [](const std::string& json, const std::string& name) { return parse_config(json, name); },
      "json"_a, "name"_a = "config", "config.json of any model in either spelling, checked; `name` starts messages.");
  bind_roles(module);
}

}  // namespace skim::python

// Model: layers of any family, loaded and checked, and the checks that every forward call begins with.
#include "skim/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "attention/layer_call.hpp"
#include "attention/layer_loader.hpp"
#include "base/access.hpp"
#include "base/out_of_memory.hpp"
#include "kernels/registry.hpp"
#include "models/family.hpp"
#include "models/fields.hpp"
#include "skim/cache.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

/// A layer with its rotations in caches for short and for long contexts (CacheLayout::yarn).
struct PlacedLayer {
  LayerRole role;
  std::unique_ptr<const LoadedLayer> code;
  RopeTable rope, yarn_rope;
};

}  // namespace

struct Model::Impl {
  Config config;
  std::vector<int> layers;
  const KernelSet* kernel_set = nullptr;
  ModelShape shape;
  std::map<int, PlacedLayer> loaded;
  std::shared_ptr<const CacheLayout> layout;
};

namespace {

std::vector<int> wanted_layers(const Config& config, const std::vector<int>& asked) {
  std::vector<int> layers = asked;
  if (layers.empty()) {
    for (int layer = 0; layer < backbone_layers(config); ++layer) layers.push_back(layer);
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

void require_source(const std::vector<int>& layers, int layer, int source, std::string_view what) {
  if (source < 0 || std::binary_search(layers.begin(), layers.end(), source)) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("layer {} needs layer {} ({}), which is not among the layers of the model", layer, source, what));
}

void check_layers(const Config& config, const std::vector<int>& layers) {
  for (const int layer : layers) {
    const LayerRole role = role_of(config, layer);
    require_source(layers, layer, role.kv_source, "source of its compressed rows");
    require_source(layers, layer, role.key_source, "source of its index keys");
    require_source(layers, layer, role.index_source, "source of its selection");
    require_source(layers, layer, role.candidate_source, "source of its candidate blocks");
  }
}

void check_tensors(const Checkpoint& checkpoint, const std::vector<int>& layers, bool strict) {
  std::string list;
  for (const TensorProblem& problem : checkpoint.problems(layers)) {
    if (problem.kind == TensorProblem::Kind::unexpected && !strict) continue;
    list += fmt::format("{}{}: {}", list.empty() ? "" : "; ", problem.name, problem.what);
  }
  if (!list.empty()) throw Error(ErrorCode::tensor_mismatch, "checkpoint: " + list);
}

/// Memory [first, last) that a view covers.
template <class T>
std::pair<const void*, const void*> extent(const View<T, 2>& view) {
  return {view.data, view.row(view.shape[0] - 1) + view.shape[1]};
}

void check_overlap(const View<const bf16, 2>& x, const View<bf16, 2>& out) {
  const auto [x_first, x_last] = extent(x);
  const auto [out_first, out_last] = extent(out);
  const std::less<const void*> before;
  const bool apart = !before(x_first, out_last) || !before(out_first, x_last);
  if (apart || (x.data == out.data && x.strides == out.strides)) return;
  throw Error(ErrorCode::invalid_argument, "x and out overlap without being the same rows");
}

void require_run(const Batch::Impl& batch, int layer, int source) {
  if (source < 0 || source == layer || batch.ran[batch.layout().slot(source)]) return;
  throw Error(ErrorCode::wrong_order,
              fmt::format("layer {}: its source, layer {}, has not run in this batch", layer, source));
}

template <class T>
void check_view(std::string_view name, const View<T, 2>& view, std::int64_t tokens, std::int64_t dim) {
  const auto& [data, shape, strides] = view;
  if (data == nullptr) throw Error(ErrorCode::invalid_argument, fmt::format("{} has no data (null)", name));
  if (shape[0] != tokens || shape[1] != dim) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} has shape [{}, {}], expected [{}, {}] (tokens, dim)", name,
                                                         shape[0], shape[1], tokens, dim));
  }
  if (strides[1] != 1 || (tokens > 1 && strides[0] < dim)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has strides [{}, {}], expected rows at least {} apart and elements next to each other",
                            name, strides[0], strides[1], dim));
  }
  // So that addresses of rows can be computed and compared.
  if (tokens > 1 && strides[0] > (PTRDIFF_MAX / static_cast<std::int64_t>(sizeof(T)) - dim) / (tokens - 1)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has {} rows {} elements apart, more than memory can hold", name, tokens, strides[0]));
  }
}

PlacedLayer load_layer(const LayerLoader& loader, const Config& config, int layer) {
  const Family& family = family_of(config);
  const LayerRole role = role_of(config, layer);
  return {role, family.load(loader, config, role), RopeTable(family.rope(config, role, false)),
          RopeTable(family.rope(config, role, true))};
}

std::shared_ptr<const Model::Impl> load_model(const Checkpoint& checkpoint, const ModelOptions& options) {
  auto model = std::make_shared<Model::Impl>();
  model->config = checkpoint.config();
  model->shape = family_of(model->config).shape(model->config);
  model->kernel_set = &choose_kernel_set(options.kernels);
  model->layers = wanted_layers(model->config, options.layers);
  check_layers(model->config, model->layers);
  check_tensors(checkpoint, model->layers, options.strict);
  Memory& memory = model->kernel_set->memory();
  Digest fingerprint;
  fingerprint.add_text(canonical_text(model->config));
  for (const int layer : model->layers) {
    if (options.progress) options.progress(layer);
    const LayerLoader loader(checkpoint, layer, model->kernel_set->kernels(), memory, fingerprint);
    model->loaded.emplace(layer, load_layer(loader, model->config, layer));
  }
  CacheLayout layout = cache_layout(model->config, model->layers, memory);
  layout.fingerprint = fingerprint.hex();
  model->layout = std::make_shared<CacheLayout>(std::move(layout));
  return model;
}

}  // namespace

Model::Model(const Checkpoint& checkpoint, const ModelOptions& options)
    : impl_(or_out_of_memory("model: loading weights", [&] { return load_model(checkpoint, options); })) {}

const Config& Model::config() const { return impl_->config; }
const std::vector<int>& Model::layers() const { return impl_->layers; }
std::string_view Model::kernels() const { return impl_->kernel_set->name; }

std::int64_t Model::weight_bytes() const {
  std::int64_t total = 0;
  for (const auto& [layer, loaded] : impl_->loaded) total += loaded.code->weight_bytes();
  return total;
}

void Model::forward(int layer, Batch& batch, View<const bf16, 2> x, View<bf16, 2> out, Trace* trace) const {
  const auto found = impl_->loaded.find(layer);
  if (found == impl_->loaded.end()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("layer {} is not among the layers of the model", layer));
  }
  Batch::Impl& state = Access::impl(batch);
  if (state.cache->layout != impl_->layout) {
    throw Error(ErrorCode::invalid_argument, "batch: its cache was made for another model");
  }
  if (state.committed) throw Error(ErrorCode::wrong_order, "batch: committed already");
  const PlacedLayer& placed = found->second;
  const LayerRole& role = placed.role;
  const std::size_t slot = impl_->layout->slot(layer);
  if (state.ran[slot])
    throw Error(ErrorCode::wrong_order, fmt::format("layer {} has run in this batch already", layer));
  for (const int source : {role.kv_source, role.key_source, role.index_source, role.candidate_source}) {
    require_run(state, layer, source);
  }
  check_view("x", x, state.tokens, impl_->shape.dim);
  check_view("out", out, state.tokens, impl_->shape.dim);
  check_overlap(x, out);
  const bool yarn = impl_->layout->yarn(state.cache->options.max_tokens);
  const LayerCall call{.layer = layer,
                       .role = role,
                       .rope = yarn ? placed.yarn_rope : placed.rope,
                       .kernels = impl_->kernel_set->kernels(),
                       .batch = state,
                       .slot = slot,
                       .yarn = yarn,
                       .trace = trace,
                       .watches_scores = trace != nullptr && trace->wants("index_score"),
                       .norm_eps = static_cast<float>(impl_->shape.norm_eps)};
  or_out_of_memory(fmt::format("layer {}", layer), [&] { placed.code->run(call, x, out); });
  state.ran[slot] = true;
}

// Here, because src/cache/ knows layouts but no Model.
KvCache::KvCache(const Model& model, const CacheOptions& options)
    : impl_(or_out_of_memory("cache", [&] { return std::make_shared<Impl>(Access::impl(model)->layout, options); })) {}

}  // namespace skim

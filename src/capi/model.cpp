#include "skim/model.hpp"

#include "capi/boundary.hpp"
#include "capi/handles.hpp"

namespace capi = skim::capi;

int skim_model_create(const skim_checkpoint* checkpoint, const skim_model_options* options, skim_model** model,
                      skim_error* error) {
  return capi::guarded(error, [&] {
    auto& handle = capi::new_handle("model", model);
    const skim::Checkpoint& weights = capi::required("checkpoint", checkpoint).checkpoint;
    const skim_model_options given = capi::read_options("options", options);
    const auto layers = capi::required("options.layers", given.layers, given.layer_count);
    handle = new skim_model{skim::Model(weights, {.layers = {layers.begin(), layers.end()},
                                                  .kernels = capi::optional_text(given.kernels),
                                                  .strict = given.ignore_unexpected == 0})};
  });
}

void skim_model_free(skim_model* model) { delete model; }

int skim_model_get_info(const skim_model* model, skim_model_info* info, skim_error* error) {
  return capi::guarded(error, [&] {
    const skim::Model& found = capi::required("model", model).model;
    skim_model_info facts{};
    capi::copy_name(found.kernels(), facts.kernels);
    facts.dim = skim::hidden_dim(found.config());
    facts.layer_count = static_cast<int64_t>(found.layers().size());
    facts.weight_bytes = found.weight_bytes();
    capi::write_info("info", info, facts);
  });
}

int skim_model_layers(const skim_model* model, int32_t* layers, size_t capacity, size_t* count, skim_error* error) {
  return capi::guarded(error, [&] {
    const auto target = capi::required("layers", layers, capacity);
    capi::write_list(capi::required("model", model).model.layers(), target, capi::required("count", count));
  });
}

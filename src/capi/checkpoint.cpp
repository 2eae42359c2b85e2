#include "skim/checkpoint.hpp"

#include "capi/boundary.hpp"
#include "capi/handles.hpp"
#include "skim/cache.hpp"

namespace capi = skim::capi;

int skim_checkpoint_open(const char* path, skim_checkpoint** checkpoint, skim_error* error) {
  return capi::guarded(error, [&] {
    auto& handle = capi::new_handle("checkpoint", checkpoint);
    handle = new skim_checkpoint{skim::Checkpoint::open(&capi::required("path", path))};
  });
}

int skim_checkpoint_synthetic(const char* name, uint64_t seed, skim_checkpoint** checkpoint, skim_error* error) {
  return capi::guarded(error, [&] {
    auto& handle = capi::new_handle("checkpoint", checkpoint);
    handle = new skim_checkpoint{skim::Checkpoint::synthetic(skim::named_config(&capi::required("name", name)), seed)};
  });
}

void skim_checkpoint_free(skim_checkpoint* checkpoint) { delete checkpoint; }

int skim_checkpoint_config(const skim_checkpoint* checkpoint, skim_config* config, skim_error* error) {
  return capi::guarded(error, [&] {
    const skim::Config& found = capi::required("checkpoint", checkpoint).checkpoint.config();
    skim_config facts{};
    capi::copy_name(skim::model_type(found), facts.model_type);
    facts.dim = skim::hidden_dim(found);
    facts.backbone_layers = skim::backbone_layers(found);
    facts.layers = skim::layer_count(found);
    capi::write_info("config", config, facts);
  });
}

int skim_checkpoint_layer_role(const skim_checkpoint* checkpoint, int32_t layer, skim_layer_role* role,
                               skim_error* error) {
  return capi::guarded(error, [&] {
    const skim::LayerRole found = skim::layer_role(capi::required("checkpoint", checkpoint).checkpoint.config(), layer);
    skim_layer_role facts{};
    capi::copy_name(skim::role_name(found.role), facts.role);
    facts.ratio = found.ratio;
    facts.kv_source = found.kv_source;
    facts.index_source = found.index_source;
    facts.candidate_source = found.candidate_source;
    capi::write_info("role", role, facts);
  });
}

int skim_checkpoint_cache_cost(const skim_checkpoint* checkpoint, const int32_t* layers, size_t layer_count,
                               int64_t rollback, skim_cache_cost* cost, skim_error* error) {
  return capi::guarded(error, [&] {
    const skim::Config& config = capi::required("checkpoint", checkpoint).checkpoint.config();
    const skim::CacheCost found = skim::cache_cost(config, capi::required("layers", layers, layer_count), rollback);
    capi::write_info("cost", cost, skim_cache_cost{0, found.bytes_per_token, found.bytes_fixed});
  });
}

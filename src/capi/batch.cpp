#include "capi/boundary.hpp"
#include "capi/entries.hpp"
#include "capi/handles.hpp"

namespace capi = skim::capi;

namespace {

skim::Batch& batch_of(skim_batch* batch) { return capi::required("batch", batch).batch; }

/// The rows as they are; forward checks that they fit.
template <class T, class Rows>
skim::View<T, 2> view_of(std::string_view name, const Rows* rows) {
  const auto& [data, count, width, stride] = capi::required(name, rows);
  capi::require_aligned(std::string(name) + ".data", data, alignof(T));
  return {reinterpret_cast<T*>(data), {count, width}, {stride == 0 ? width : stride, 1}};
}

}  // namespace

int skim_batch_begin(skim_cache* cache, const skim_batch_entry* entries, size_t count, skim_batch** batch,
                     skim_error* error) {
  return capi::guarded(error, [&] {
    auto& handle = capi::new_handle("batch", batch);
    skim_cache& owner = capi::required("cache", cache);
    handle = new skim_batch{owner.model, owner.cache.begin(capi::batch_entries(entries, count))};
  });
}

void skim_batch_free(skim_batch* batch) { delete batch; }

int skim_batch_tokens(const skim_batch* batch, int64_t* tokens, skim_error* error) {
  return capi::guarded(error,
                       [&] { capi::required("tokens", tokens) = capi::required("batch", batch).batch.tokens(); });
}

int skim_batch_forward(skim_batch* batch, int32_t layer, const skim_const_rows* x, const skim_rows* out,
                       skim_error* error) {
  return capi::guarded(error, [&] {
    auto& [model, running] = capi::required("batch", batch);
    model.forward(layer, running, view_of<const skim::bf16>("x", x), view_of<skim::bf16>("out", out));
  });
}

int skim_batch_commit(skim_batch* batch, skim_error* error) {
  return capi::guarded(error, [&] { batch_of(batch).commit(); });
}

int skim_batch_commit_sequence(skim_batch* batch, int64_t sequence, int64_t accepted, skim_error* error) {
  return capi::guarded(error, [&] { batch_of(batch).commit({sequence}, accepted); });
}

#include "skim/cache.hpp"

#include "capi/boundary.hpp"
#include "capi/entries.hpp"
#include "capi/handles.hpp"

namespace capi = skim::capi;

namespace {

skim::KvCache& cache_of(skim_cache* cache) { return capi::required("cache", cache).cache; }
const skim::KvCache& cache_of(const skim_cache* cache) { return capi::required("cache", cache).cache; }

/// 0 stands for the default.
std::int64_t given_or(std::int64_t given, std::int64_t otherwise) { return given == 0 ? otherwise : given; }

skim::CacheOptions cache_options(const skim_cache_options* options) {
  const skim_cache_options given = capi::read_options("options", options);
  const skim::CacheOptions standard;
  return {.max_tokens = given_or(given.max_tokens, standard.max_tokens),
          .max_sequences = given_or(given.max_sequences, standard.max_sequences),
          .max_bytes = given.max_bytes,
          .rollback = given.rollback,
          .page_rows = given_or(given.page_rows, standard.page_rows),
          .workspace_bytes = given_or(given.workspace_bytes, standard.workspace_bytes),
          .threads = capi::narrowed<int>("options.threads", given.threads)};
}

}  // namespace

int skim_cache_create(const skim_model* model, const skim_cache_options* options, skim_cache** cache,
                      skim_error* error) {
  return capi::guarded(error, [&] {
    auto& handle = capi::new_handle("cache", cache);
    const skim::Model& owner = capi::required("model", model).model;
    handle = new skim_cache{owner, skim::KvCache(owner, cache_options(options))};
  });
}

void skim_cache_free(skim_cache* cache) { delete cache; }

int skim_cache_add(skim_cache* cache, int64_t* sequence, skim_error* error) {
  return capi::guarded(error, [&] {
    int64_t& id = capi::required("sequence", sequence);  // refused before there is a sequence
    id = cache_of(cache).add().value;
  });
}

int skim_cache_remove(skim_cache* cache, int64_t sequence, skim_error* error) {
  return capi::guarded(error, [&] { cache_of(cache).remove({sequence}); });
}

int skim_cache_length(const skim_cache* cache, int64_t sequence, int64_t* tokens, skim_error* error) {
  return capi::guarded(error, [&] { capi::required("tokens", tokens) = cache_of(cache).length({sequence}); });
}

int skim_cache_fork(skim_cache* cache, int64_t sequence, int64_t tokens, int64_t* child, skim_error* error) {
  return capi::guarded(error, [&] {
    int64_t& id = capi::required("child", child);
    id = cache_of(cache).fork({sequence}, tokens).value;
  });
}

int skim_cache_truncate(skim_cache* cache, int64_t sequence, int64_t tokens, skim_error* error) {
  return capi::guarded(error, [&] { cache_of(cache).truncate({sequence}, tokens); });
}

int skim_cache_restorable(const skim_cache* cache, int64_t sequence, skim_length_range* ranges, size_t capacity,
                          size_t* count, skim_error* error) {
  return capi::guarded(error, [&] {
    const auto target = capi::required("ranges", ranges, capacity);
    std::vector<skim_length_range> list;
    for (const auto& range : cache_of(cache).restorable({sequence})) list.push_back({range.first, range.last});
    capi::write_list(list, target, capi::required("count", count));
  });
}

int skim_cache_save(const skim_cache* cache, int64_t sequence, const char* path, skim_error* error) {
  return capi::guarded(error, [&] { cache_of(cache).save({sequence}, &capi::required("path", path)); });
}

int skim_cache_load(skim_cache* cache, const char* path, int64_t* sequence, skim_error* error) {
  return capi::guarded(error, [&] {
    int64_t& id = capi::required("sequence", sequence);
    id = cache_of(cache).load(&capi::required("path", path)).value;
  });
}

int skim_cache_admission_problem(const skim_cache* cache, const skim_batch_entry* entries, size_t count,
                                 skim_text* problem, skim_error* error) {
  return capi::guarded(error, [&] {
    skim_text& target = capi::required_text("problem", problem);
    capi::write_text(cache_of(cache).admission_problem(capi::batch_entries(entries, count)).value_or(""), target);
  });
}

int skim_cache_bytes(const skim_cache* cache, int64_t* bytes, skim_error* error) {
  return capi::guarded(error, [&] { capi::required("bytes", bytes) = cache_of(cache).bytes(); });
}

int skim_cache_workspace_bytes(const skim_cache* cache, int64_t* bytes, skim_error* error) {
  return capi::guarded(error, [&] { capi::required("bytes", bytes) = cache_of(cache).workspace_bytes(); });
}

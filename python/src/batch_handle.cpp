#include "batch_handle.hpp"

#include "arrays.hpp"
#include "calls.hpp"
#include "skim/error.hpp"

namespace nb = nanobind;

namespace skim::python {

BatchHandle::BatchHandle(std::shared_ptr<SharedCache> cache, Batch batch)
    : cache_(std::move(cache)), batch_(std::move(batch)), tokens_(batch_->tokens()) {}

// Nobody else is using it: a call would hold a reference.
BatchHandle::~BatchHandle() {
  without_interpreter([&] {
    const std::lock_guard manage(cache_->manage);
    batch_.reset();
  });
}

std::unique_lock<std::mutex> BatchHandle::claim() {
  std::unique_lock lock(in_use_, std::try_to_lock);
  if (!lock) throw Error(ErrorCode::wrong_order, "batch: another thread is using it");
  return lock;
}

template <class Body>
void BatchHandle::use(Body body) {
  const std::unique_lock lock = claim();
  if (!batch_) throw Error(ErrorCode::wrong_order, "batch: it was dropped");
  body(*batch_);
}

nb::object BatchHandle::forward(const Model& model, int layer, nb::object x, nb::object out) {
  const Rows from = import_rows(x, "x", Access::read);
  const bool is_new = out.is_none();
  if (is_new) out = empty_like(x, from.view);
  const Rows to = import_rows(out, "out", is_new ? Access::read : Access::write);  // asking for more takes microseconds
  on_threads([&] {
    use([&](Batch& batch) {
      const std::shared_lock running(cache_->forward);
      model.forward(layer, batch, from.view, to.view);
    });
  });
  return out;
}

void BatchHandle::commit() {
  without_interpreter([&] {
    use([&](Batch& batch) {
      const std::lock_guard manage(cache_->manage);
      batch.commit();
    });
  });
}

void BatchHandle::commit(SequenceId sequence, std::int64_t accepted) {
  without_interpreter([&] {
    use([&](Batch& batch) {
      const std::lock_guard manage(cache_->manage);
      batch.commit(sequence, accepted);
    });
  });
}

void BatchHandle::drop() {
  without_interpreter([&] {
    const std::unique_lock lock = claim();
    const std::lock_guard manage(cache_->manage);
    batch_.reset();
  });
}

CacheHandle::CacheHandle(const Model& model, const CacheOptions& options)
    : cache_(without_interpreter([&] { return std::make_shared<SharedCache>(model, options); })) {}

CacheHandle::~CacheHandle() {
  without_interpreter([&] { cache_.reset(); });
}

template <class Body>
auto CacheHandle::manage(Body body) {
  return without_interpreter([&] {
    const std::lock_guard lock(cache_->manage);
    return body(cache_->cache);
  });
}

SequenceId CacheHandle::add() {
  return manage([](KvCache& cache) { return cache.add(); });
}

void CacheHandle::remove(SequenceId sequence) {
  manage([&](KvCache& cache) { cache.remove(sequence); });
}

std::int64_t CacheHandle::length(SequenceId sequence) {
  return manage([&](KvCache& cache) { return cache.length(sequence); });
}

SequenceId CacheHandle::fork(SequenceId sequence, std::optional<std::int64_t> tokens) {
  return manage([&](KvCache& cache) { return tokens ? cache.fork(sequence, *tokens) : cache.fork(sequence); });
}

void CacheHandle::truncate(SequenceId sequence, std::int64_t tokens) {
  manage([&](KvCache& cache) { cache.truncate(sequence, tokens); });
}

std::vector<LengthRange> CacheHandle::restorable(SequenceId sequence) {
  return manage([&](KvCache& cache) { return cache.restorable(sequence); });
}

void CacheHandle::save(SequenceId sequence, const std::filesystem::path& path) {
  manage([&](KvCache& cache) { cache.save(sequence, path); });
}

SequenceId CacheHandle::load(const std::filesystem::path& path) {
  return manage([&](KvCache& cache) { return cache.load(path); });
}

std::unique_ptr<BatchHandle> CacheHandle::begin(const std::vector<BatchEntry>& entries) {
  return manage([&](KvCache& cache) { return std::make_unique<BatchHandle>(cache_, cache.begin(entries)); });
}

std::optional<std::string> CacheHandle::admission_problem(const std::vector<BatchEntry>& entries) {
  return manage([&](KvCache& cache) { return cache.admission_problem(entries); });
}

std::int64_t CacheHandle::bytes() {
  return manage([](KvCache& cache) { return cache.bytes(); });
}

std::int64_t CacheHandle::workspace_bytes() {
  return manage([&](KvCache& cache) {
    const std::unique_lock idle(cache_->forward, std::try_to_lock);
    if (!idle) throw Error(ErrorCode::wrong_order, "cache: workspace_bytes while a forward call runs");
    return cache.workspace_bytes();
  });
}

}  // namespace skim::python

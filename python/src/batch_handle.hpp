// Caches and batches that several Python threads may get hold of, and drop in any order.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "skim/cache.hpp"

namespace skim::python {

/// A cache and what keeps threads apart. Locks are taken without the interpreter lock, in this order: the batch, then
/// `manage`, then `forward`.
struct SharedCache {
  SharedCache(const Model& model, const CacheOptions& options) : cache(model, options) {}

  KvCache cache;
  std::mutex manage;          ///< For every call of the cache, and to commit or drop a batch.
  std::shared_mutex forward;  ///< Shared while a layer runs.
};

class BatchHandle {
 public:
  BatchHandle(std::shared_ptr<SharedCache> cache, Batch batch);
  BatchHandle(const BatchHandle&) = delete;
  BatchHandle& operator=(const BatchHandle&) = delete;
  ~BatchHandle();

  std::int64_t tokens() const { return tokens_; }
  /// `out`, or a new array if it is None.
  nanobind::object forward(const Model& model, int layer, nanobind::object x, nanobind::object out);
  void commit();
  void commit(SequenceId sequence, std::int64_t accepted);
  /// May be called again.
  void drop();

 private:
  /// Throws Error{wrong_order} if another thread is using the batch.
  std::unique_lock<std::mutex> claim();
  /// body(batch), claimed. Throws Error{wrong_order} if it was dropped, too.
  template <class Body>
  void use(Body body);

  std::shared_ptr<SharedCache> cache_;
  std::mutex in_use_;
  std::optional<Batch> batch_;
  std::int64_t tokens_;
};

/// The functions of KvCache, each with the locks it needs.
class CacheHandle {
 public:
  CacheHandle(const Model& model, const CacheOptions& options);
  CacheHandle(const CacheHandle&) = delete;
  CacheHandle& operator=(const CacheHandle&) = delete;
  ~CacheHandle();

  SequenceId add();
  void remove(SequenceId sequence);
  std::int64_t length(SequenceId sequence);
  SequenceId fork(SequenceId sequence, std::optional<std::int64_t> tokens);
  void truncate(SequenceId sequence, std::int64_t tokens);
  std::vector<LengthRange> restorable(SequenceId sequence);
  void save(SequenceId sequence, const std::filesystem::path& path);
  SequenceId load(const std::filesystem::path& path);
  std::unique_ptr<BatchHandle> begin(const std::vector<BatchEntry>& entries);
  std::optional<std::string> admission_problem(const std::vector<BatchEntry>& entries);
  std::int64_t bytes();
  std::int64_t workspace_bytes();

 private:
  template <class Body>
  auto manage(Body body);

  std::shared_ptr<SharedCache> cache_;
};

}  // namespace skim::python

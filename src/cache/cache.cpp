// The limits of a cache, and its functions.
#include <fmt/format.h>

#include <algorithm>

#include "base/out_of_memory.hpp"
#include "cache/batch_impl.hpp"
#include "cache/cache_impl.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

void check_range(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cache options: {} is {}, expected {} to {}", field, value, low, high));
  }
}

}  // namespace

void check_options(const CacheOptions& options) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  check_range("max_tokens", options.max_tokens, 1, std::int64_t{1} << 31);  // positions are 32-bit in selections
  check_range("max_sequences", options.max_sequences, 1, most);
  check_range("max_bytes", options.max_bytes, 0, std::int64_t{1} << 60);
  check_range("page_rows", options.page_rows, 1, 1 << 20);
  check_range("workspace_bytes", options.workspace_bytes, 0, most);
  check_range("threads", options.threads, 0, 4096);
  check_range("rollback", options.rollback, 0, kMostRollback);
}

namespace {

[[noreturn]] void over_limit(std::string_view limit, std::int64_t allowed, std::int64_t needed) {
  throw Error(ErrorCode::limit_exceeded,
              fmt::format("cache: {} is {}, but {} would be needed", limit, allowed, needed));
}

/// Checks one entry of a batch, of which `sequence` is the sequence.
void check_entry(const KvCache::Impl& cache, const BatchEntry& entry, const Sequence& sequence) {
  if (sequence.in_batch) {
    throw Error(ErrorCode::wrong_order,
                fmt::format("batch: sequence {} is part of another batch", entry.sequence.value));
  }
  if (entry.tokens < 1) {
    throw Error(ErrorCode::invalid_argument, fmt::format("batch: {} tokens for sequence {}, expected at least 1",
                                                         entry.tokens, entry.sequence.value));
  }
  // The sum may not fit 64 bits, the difference does.
  if (entry.tokens > cache.options.max_tokens - sequence.length) {
    throw Error(ErrorCode::limit_exceeded,
                fmt::format("cache: max_tokens is {}, but sequence {} holds {} and would get {} more",
                            cache.options.max_tokens, entry.sequence.value, sequence.length, entry.tokens));
  }
}

std::vector<std::pair<std::int64_t, std::size_t>> index_by_id(std::span<const BatchEntry> entries) {
  std::vector<std::pair<std::int64_t, std::size_t>> by_id;
  by_id.reserve(entries.size());
  for (const BatchEntry& entry : entries) by_id.emplace_back(entry.sequence.value, by_id.size());
  std::sort(by_id.begin(), by_id.end());
  const auto twice =
      std::adjacent_find(by_id.begin(), by_id.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != by_id.end()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("batch: sequence {} is named twice", twice->first));
  }
  return by_id;
}

/// What begin would make of its entries.
struct BatchPlan {
  std::vector<BatchSequence> sequences;
  std::vector<std::pair<std::int64_t, std::size_t>> by_id;
  std::int64_t tokens = 0;

  std::vector<NewTokens> new_tokens() const;
  /// Bytes that its sequences will allocate.
  std::int64_t bytes_to_grow(const CacheLayout& layout) const;
};

std::vector<NewTokens> BatchPlan::new_tokens() const {
  std::vector<NewTokens> list;
  list.reserve(sequences.size());
  for (const BatchSequence& entry : sequences) list.push_back({entry.start, entry.tokens});
  return list;
}

std::int64_t BatchPlan::bytes_to_grow(const CacheLayout& layout) const {
  std::int64_t bytes = 0;
  for (const BatchSequence& entry : sequences) {
    bytes += entry.sequence->bytes_to_grow(layout, entry.start + entry.tokens);
  }
  return bytes;
}

/// Checks the entries one by one; changes nothing.
BatchPlan plan_batch(KvCache::Impl& cache, std::span<const BatchEntry> entries) {
  if (entries.empty()) throw Error(ErrorCode::invalid_argument, "batch: no sequences, expected at least one");
  BatchPlan plan;
  plan.sequences.reserve(entries.size());
  for (const BatchEntry& entry : entries) {
    Sequence& sequence = cache.find(entry.sequence);
    check_entry(cache, entry, sequence);
    plan.sequences.push_back({entry.sequence, &sequence, sequence.length, entry.tokens, plan.tokens});
    plan.tokens += entry.tokens;
  }
  plan.by_id = index_by_id(entries);
  cache.check_room_for_bytes(plan.bytes_to_grow(*cache.layout));
  return plan;
}

void require_restorable(const CacheLayout& layout, const Sequence& sequence, SequenceId id, std::int64_t tokens) {
  if (sequence.can_restore(layout, tokens)) return;
  std::string lengths;
  for (const LengthRange& range : sequence.restorable(layout)) {
    if (!lengths.empty()) lengths += ", ";
    lengths +=
        range.first == range.last ? std::to_string(range.first) : fmt::format("{} to {}", range.first, range.last);
  }
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("cache: sequence {} cannot be restored at {} tokens; it can at: {}", id.value, tokens, lengths));
}

}  // namespace

KvCache::Impl::Impl(std::shared_ptr<const CacheLayout> cache_layout, const CacheOptions& cache_options)
    : layout(std::move(cache_layout)), options(cache_options), memory(*layout->memory) {
  check_options(options);
}

Sequence& KvCache::Impl::find(SequenceId id) {
  const auto found = sequences.find(id.value);
  if (found == sequences.end()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("cache: there is no sequence {}", id.value));
  }
  return found->second;
}

std::unique_ptr<Context> KvCache::Impl::borrow_context() {
  if (idle.empty()) {
    idle.reserve(contexts.size() + 1);  // so that returning never allocates
    auto context = std::make_unique<Context>(options.threads);
    contexts.push_back(context.get());
    return context;
  }
  std::unique_ptr<Context> context = std::move(idle.back());
  idle.pop_back();
  return context;
}

void KvCache::Impl::return_context(std::unique_ptr<Context> context) noexcept {
  if (context != nullptr) idle.push_back(std::move(context));
}

KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;
KvCache::~KvCache() = default;

Sequence& KvCache::Impl::find_idle(SequenceId id) {
  Sequence& sequence = find(id);
  if (!sequence.in_batch) return sequence;
  throw Error(ErrorCode::wrong_order, fmt::format("cache: sequence {} is part of a batch", id.value));
}

void KvCache::Impl::check_room_for_sequence() const {
  const auto count = static_cast<std::int64_t>(sequences.size());
  if (count >= options.max_sequences) over_limit("max_sequences", options.max_sequences, count + 1);
}

void KvCache::Impl::check_room_for_bytes(std::int64_t bytes) const {
  if (options.max_bytes > 0 && memory.bytes() + bytes > options.max_bytes) {
    over_limit("max_bytes", options.max_bytes, memory.bytes() + bytes);
  }
}

SequenceId KvCache::Impl::insert(Sequence sequence) {
  const SequenceId id{next_id};
  sequences.emplace(id.value, std::move(sequence));
  ++next_id;
  return id;
}

SequenceId KvCache::add() {
  impl_->check_room_for_sequence();
  return or_out_of_memory("cache: new sequence", [&] {
    const SequenceFormat format = impl_->sequence_format();
    return impl_->insert(Sequence(format.layout, impl_->memory, format.page_rows, format.limits));
  });
}

void KvCache::remove(SequenceId id) {
  impl_->find_idle(id);
  impl_->sequences.erase(id.value);
}

SequenceId KvCache::fork(SequenceId id) { return fork(id, length(id)); }

SequenceId KvCache::fork(SequenceId id, std::int64_t tokens) {
  Sequence& parent = impl_->find_idle(id);
  require_restorable(*impl_->layout, parent, id, tokens);
  impl_->check_room_for_sequence();
  return or_out_of_memory("cache: fork", [&] { return impl_->insert(parent.fork(*impl_->layout, tokens)); });
}

void KvCache::truncate(SequenceId id, std::int64_t tokens) {
  Sequence& sequence = impl_->find_idle(id);
  require_restorable(*impl_->layout, sequence, id, tokens);
  sequence.truncate(*impl_->layout, tokens);
}

void KvCache::save(SequenceId id, const std::filesystem::path& path) const {
  const Sequence& sequence = impl_->find_idle(id);
  or_out_of_memory(path.native(), [&] { save_sequence(sequence, impl_->sequence_format(), path); });
}

SequenceId KvCache::load(const std::filesystem::path& path) {
  impl_->check_room_for_sequence();
  return or_out_of_memory(path.native(), [&] {
    Sequence sequence = load_sequence(impl_->sequence_format(), impl_->memory, path);
    impl_->check_room_for_bytes(0);  // its rings are there already
    return impl_->insert(std::move(sequence));
  });
}

std::vector<LengthRange> KvCache::restorable(SequenceId id) const {
  const Sequence& sequence = impl_->find(id);
  return or_out_of_memory("cache", [&] { return sequence.restorable(*impl_->layout); });
}

std::int64_t KvCache::length(SequenceId id) const { return impl_->find(id).length; }

Batch KvCache::begin(std::span<const BatchEntry> entries) {
  return or_out_of_memory("batch", [&] { return begin_batch(entries); });
}

Batch KvCache::begin_batch(std::span<const BatchEntry> entries) {
  BatchPlan plan = plan_batch(*impl_, entries);
  auto batch = std::make_unique<Batch::Impl>();
  batch->staging = Staging(*impl_->layout, impl_->ring_limits(), plan.new_tokens());
  batch->ran.resize(impl_->layout->layers.size());
  batch->tokens = plan.tokens;
  batch->by_id = std::move(plan.by_id);
  batch->sequences = std::move(plan.sequences);
  impl_->batches.insert(batch.get());
  batch->cache = impl_;  // from here on the batch's destructor undoes what follows
  batch->context = impl_->borrow_context();
  for (BatchSequence& entry : batch->sequences) entry.sequence->in_batch = true;
  for (BatchSequence& entry : batch->sequences) {
    entry.sequence->grow(*impl_->layout, entry.start + entry.tokens);
  }
  return Batch(std::move(batch));
}

std::optional<std::string> KvCache::admission_problem(std::span<const BatchEntry> entries) const {
  return or_out_of_memory("batch", [&]() -> std::optional<std::string> {
    try {
      plan_batch(*impl_, entries);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  });
}

std::int64_t KvCache::bytes() const { return impl_->memory.bytes(); }

std::int64_t KvCache::workspace_bytes() const {
  std::int64_t total = 0;
  for (const Context* context : impl_->contexts) total += context->scratch_bytes();
  for (const Batch::Impl* batch : impl_->batches) total += batch->staged_bytes();
  return total;
}

}  // namespace skim

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cache/batch_impl.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

/// Puts rows of positions [start, end) that a ring of `rows` can hold into their slots.
void commit_rows(std::byte* ring, std::int64_t rows, std::int64_t row_bytes, std::int64_t start, std::int64_t end,
                 const auto& staged_row) {
  for (std::int64_t position = std::max(start, end - rows); position < end; ++position) {
    copy_bytes(ring + position % rows * row_bytes, staged_row(position), row_bytes);
  }
}

}  // namespace

WindowRows BatchSequence::window(const LayerLayout& layout, std::size_t slot) const {
  const StagedLayer& staged = layers[slot];
  const LayerCache& cache = sequence->layers[slot];
  return {cache.ring.data(), cache.ring_rows, staged.window.data(), staged.window_first, layout.window_row.bytes()};
}

float* BatchSequence::open_row(const LayerLayout& layout, std::size_t slot, std::int64_t position) const {
  const StagedLayer& staged = layers[slot];
  const LayerCache& cache = sequence->layers[slot];
  return position >= start ? staged.open.as<float>() + position % staged.open_rows * layout.open_floats
                           : cache.open.as<float>() + position % cache.open_rows * layout.open_floats;
}

Batch::Impl::~Impl() {
  if (cache == nullptr) return;
  cache->batches.erase(this);
  cache->return_context(std::move(context));
  for (BatchSequence& entry : sequences) {
    if (entry.committed) continue;  // it may be in another batch by now, or gone
    entry.sequence->in_batch = false;
    entry.sequence->settle(layout(), entry.start);
  }
}

void Batch::Impl::stage(std::size_t slot) {
  const LayerLayout& layer = layout().layers[slot];
  for (BatchSequence& entry : sequences) {
    StagedLayer& staged = entry.layers[slot];
    staged.window = Buffer(*layout().memory, layer.window > 0 ? entry.tokens * layer.window_row.bytes() : 0);
    staged.window_first = entry.start;
    staged.window_rows = layer.window > 0 ? entry.tokens : 0;
    // As many as a ring, wherever within the rollback the accepted tokens end.
    const std::int64_t ring = entry.sequence->layers[slot].open_rows;
    staged.open_rows = ring > 0 ? ring + cache->options.rollback : 0;
    staged.open = Buffer(*layout().memory, staged.open_rows * layer.open_row_bytes());
  }
}

void Batch::Impl::trim(std::size_t slot) {
  const LayerLayout& layer = layout().layers[slot];
  for (BatchSequence& entry : sequences) {
    StagedLayer& staged = entry.layers[slot];
    const std::int64_t wanted = entry.sequence->layers[slot].ring_rows + cache->options.rollback;
    const std::int64_t surplus = staged.window_rows - wanted;
    if (surplus <= 0) continue;
    const std::int64_t row_bytes = layer.window_row.bytes();
    Buffer kept(*layout().memory, wanted * row_bytes);
    copy_bytes(kept.data(), staged.window.data() + surplus * row_bytes, wanted * row_bytes);
    staged.window = std::move(kept);
    staged.window_first += surplus;
    staged.window_rows = wanted;
  }
}

void Batch::Impl::require_all_ran() const {
  for (std::size_t slot = 0; slot < layout().layers.size(); ++slot) {
    if (ran[slot]) continue;
    throw Error(ErrorCode::wrong_order,
                fmt::format("batch: cannot commit, layer {} has not run", layout().layers[slot].layer));
  }
}

void Batch::Impl::commit(BatchSequence& entry, std::int64_t accepted) {
  const std::int64_t end = entry.start + accepted;
  for (std::size_t slot = 0; slot < layout().layers.size(); ++slot) {
    const LayerLayout& layer = layout().layers[slot];
    const StagedLayer& staged = entry.layers[slot];
    LayerCache& rings = entry.sequence->layers[slot];
    const std::int64_t row_bytes = layer.window_row.bytes();
    commit_rows(rings.ring.data(), rings.ring_rows, row_bytes, entry.start, end, [&](std::int64_t position) {
      return staged.window.data() + (position - staged.window_first) * row_bytes;
    });
    commit_rows(rings.open.data(), rings.open_rows, layer.open_row_bytes(), entry.start, end,
                [&](std::int64_t position) {
                  return reinterpret_cast<const std::byte*>(entry.open_row(layer, slot, position));
                });
  }
  entry.sequence->settle(layout(), end);
  entry.sequence->length = end;
  entry.sequence->reached = std::max(entry.sequence->reached, end);
  entry.sequence->in_batch = false;
  entry.committed = true;
  committed = true;
}

BatchSequence& Batch::Impl::find(SequenceId id) {
  for (BatchSequence& entry : sequences) {
    if (entry.id != id) continue;
    if (entry.committed) {
      throw Error(ErrorCode::wrong_order, fmt::format("batch: sequence {} is committed already", id.value));
    }
    return entry;
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("batch: sequence {} is not part of it", id.value));
}

std::int64_t Batch::Impl::staged_bytes() const {
  std::int64_t total = 0;
  for (const BatchSequence& entry : sequences) {
    for (const StagedLayer& staged : entry.layers) total += staged.window.bytes() + staged.open.bytes();
  }
  for (const auto& [layer, publication] : selections) total += publication.bytes();
  for (const auto& [layer, publication] : candidates) total += publication.bytes();
  return total;
}

Batch::Batch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

std::int64_t Batch::tokens() const { return impl_->tokens; }

void Batch::commit() {
  if (impl_->committed) throw Error(ErrorCode::wrong_order, "batch: committed already");
  impl_->require_all_ran();
  for (BatchSequence& entry : impl_->sequences) impl_->commit(entry, entry.tokens);
}

void Batch::commit(SequenceId id, std::int64_t accepted) {
  impl_->require_all_ran();
  BatchSequence& entry = impl_->find(id);
  if (accepted < 0 || accepted > entry.tokens) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("batch: {} of the {} tokens of sequence {} accepted", accepted, entry.tokens, id.value));
  }
  const std::int64_t rejected = entry.tokens - accepted, rollback = impl_->cache->options.rollback;
  if (accepted > 0 && rejected > rollback && impl_->layout().has_rings()) {
    throw Error(ErrorCode::limit_exceeded,
                fmt::format("batch: {} of the {} tokens of sequence {} rejected, but rollback is {}", rejected,
                            entry.tokens, id.value, rollback));
  }
  impl_->commit(entry, accepted);
}

}  // namespace skim

// What batches do when their layers have run, or never will.
#include <fmt/format.h>

#include <algorithm>

#include "cache/batch_impl.hpp"
#include "skim/error.hpp"

namespace skim {

WindowRows Batch::Impl::window(const RingLayout& ring, std::size_t sequence) const {
  const Ring& committed_rows = sequences[sequence].sequence->rings[ring.index];
  const StagedRows staged = staging.rows(ring, sequence);
  return {committed_rows.data(), committed_rows.slots(), staged.data, staged.first, ring.row_bytes};
}

const std::byte* Batch::Impl::ring_row(const RingLayout& ring, std::size_t sequence, std::int64_t position) const {
  const BatchSequence& entry = sequences[sequence];
  return position >= entry.start ? staging.rows(ring, sequence).row(position)
                                 : entry.sequence->rings[ring.index].row(position);
}

Batch::Impl::~Impl() {
  if (cache == nullptr) return;
  cache->batches.erase(this);
  cache->return_context(std::move(context));
  for (BatchSequence& entry : sequences) {
    if (entry.committed) continue;  // it may be in another batch by now, or gone
    entry.sequence->in_batch = false;
    entry.sequence->settle(layout());
  }
}

void Batch::Impl::require_all_ran() const {
  for (std::size_t slot = 0; slot < layout().layers.size(); ++slot) {
    if (ran[slot]) continue;
    throw Error(ErrorCode::wrong_order,
                fmt::format("batch: cannot commit, layer {} has not run", layout().layers[slot].layer));
  }
}

void Batch::Impl::commit(std::size_t index, std::int64_t accepted) {
  BatchSequence& entry = sequences[index];
  Sequence& sequence = *entry.sequence;
  const std::int64_t end = entry.start + accepted;
  for (const LayerLayout& layer : layout().layers) {
    for (const RingLayout& ring : layer.rings) {
      sequence.rings[ring.index].commit(entry.start, end, staging.rows(ring, index));
    }
  }
  sequence.length = end;
  sequence.settle(layout());
  sequence.in_batch = false;
  entry.committed = true;
  committed = true;
}

std::size_t Batch::Impl::find(SequenceId id) const {
  const auto found = std::lower_bound(by_id.begin(), by_id.end(), std::pair(id.value, std::size_t{0}));
  if (found == by_id.end() || found->first != id.value) {
    throw Error(ErrorCode::invalid_argument, fmt::format("batch: sequence {} is not part of it", id.value));
  }
  if (sequences[found->second].committed) {
    throw Error(ErrorCode::wrong_order, fmt::format("batch: sequence {} is committed already", id.value));
  }
  return found->second;
}

std::int64_t Batch::Impl::staged_bytes() const {
  std::int64_t total = staging.bytes();
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
  for (std::size_t i = 0; i < impl_->sequences.size(); ++i) impl_->commit(i, impl_->sequences[i].tokens);
}

void Batch::commit(SequenceId id, std::int64_t accepted) {
  impl_->require_all_ran();
  const std::size_t index = impl_->find(id);
  const BatchSequence& entry = impl_->sequences[index];
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
  impl_->commit(index, accepted);
}

}  // namespace skim

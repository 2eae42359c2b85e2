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

/// Puts the staged window rows that the ring can hold into their slots.
void commit_window(const LayerLayout& layout, const StagedLayer& staged, LayerCache& cache) {
  const std::int64_t row_bytes = layout.window_row.bytes();
  const std::int64_t kept = std::min(staged.window_rows, cache.ring_rows);
  for (std::int64_t i = staged.window_rows - kept; i < staged.window_rows; ++i) {
    const std::int64_t slot = (staged.window_first + i) % cache.ring_rows;
    copy_bytes(cache.ring.data() + slot * row_bytes, staged.window.data() + i * row_bytes, row_bytes);
  }
}

}  // namespace

WindowRows BatchSequence::window(const LayerLayout& layout, std::size_t slot) const {
  const StagedLayer& staged = layers[slot];
  const LayerCache& cache = sequence->layers[slot];
  return {cache.ring.data(), cache.ring_rows, staged.window.data(), staged.window_first, layout.window_row.bytes()};
}

Batch::Impl::~Impl() {
  if (cache == nullptr) return;
  cache->batches.erase(this);
  cache->return_context(std::move(context));
  if (committed) return;  // the sequences may be in another batch by now, or gone
  for (BatchSequence& entry : sequences) {
    entry.sequence->in_batch = false;
    entry.sequence->fit(layout(), entry.sequence->length);  // frees only, so it cannot throw
  }
}

void Batch::Impl::stage(std::size_t slot) {
  const LayerLayout& layer = layout().layers[slot];
  for (BatchSequence& entry : sequences) {
    StagedLayer& staged = entry.layers[slot];
    staged.window = Buffer(*layout().memory, entry.tokens * layer.window_row.bytes());
    staged.window_first = entry.start;
    staged.window_rows = entry.tokens;
    if (layer.open_bytes() > 0) {
      staged.open = Buffer(*layout().memory, layer.open_bytes());
      const std::int64_t waiting = entry.start % layer.ratio;
      copy_bytes(staged.open.data(), entry.sequence->layers[slot].open.data(),
                 waiting * layer.open_floats * static_cast<std::int64_t>(sizeof(float)));
    }
  }
}

void Batch::Impl::trim(std::size_t slot) {
  const LayerLayout& layer = layout().layers[slot];
  for (BatchSequence& entry : sequences) {
    StagedLayer& staged = entry.layers[slot];
    const std::int64_t surplus = staged.window_rows - layer.window;
    if (surplus <= 0) continue;
    const std::int64_t row_bytes = layer.window_row.bytes();
    Buffer kept(*layout().memory, layer.window * row_bytes);
    copy_bytes(kept.data(), staged.window.data() + surplus * row_bytes, layer.window * row_bytes);
    staged.window = std::move(kept);
    staged.window_first += surplus;
    staged.window_rows = layer.window;
  }
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
  const CacheLayout& layout = impl_->layout();
  for (std::size_t slot = 0; slot < layout.layers.size(); ++slot) {
    if (!impl_->ran[slot]) {
      throw Error(ErrorCode::wrong_order,
                  fmt::format("batch: cannot commit, layer {} has not run", layout.layers[slot].layer));
    }
  }
  for (BatchSequence& entry : impl_->sequences) {
    for (std::size_t slot = 0; slot < layout.layers.size(); ++slot) {
      LayerCache& cache = entry.sequence->layers[slot];
      commit_window(layout.layers[slot], entry.layers[slot], cache);
      copy_bytes(cache.open.data(), entry.layers[slot].open.data(), entry.layers[slot].open.bytes());
    }
    entry.sequence->length += entry.tokens;
    entry.sequence->in_batch = false;
  }
  impl_->committed = true;
}

}  // namespace skim

#include "verify/recorded_selection.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skim {
namespace {

constexpr std::int64_t kNoPosition = std::int64_t{1} << 30;  // beyond what any query sees

}  // namespace

RecordedSelections::RecordedSelections(const CaseFile& file, std::int64_t call, int layer)
    : call_(file.calls()[static_cast<std::size_t>(call)]),
      window_(file.shape().window),
      window_first_(family_of(file.config()).selection_format == SelectionFormat::window_first),
      topk_(file.recorded(call, layer, "topk_idxs")) {}

std::optional<RecordedSelection> RecordedSelections::find(const QueryRow& query) const {
  const std::int64_t index = topk_ ? topk_->find(query.second) : -1;
  if (index < 0) return {};
  const std::vector<std::int64_t> entries = topk_->integers(query.first, index);
  RecordedSelection selection = window_first_ ? split_entries(entries) : visible_entries(query, entries);
  std::sort(selection.slots.begin(), selection.slots.end());
  std::sort(selection.positions.begin(), selection.positions.end());
  return selection;
}

/// SelectionFormat::window_first: an entry below the offset is a window slot, any other a compressed position; -1 is
/// nothing.
RecordedSelection RecordedSelections::split_entries(const std::vector<std::int64_t>& entries) const {
  const std::int64_t offset = call_.start_pos == 0 ? call_.seqlen : window_;
  RecordedSelection selection;
  for (const std::int64_t entry : entries) {
    if (entry == -1) continue;
    if (entry >= 0 && entry < offset) {
      selection.slots.push_back(entry);
    } else {
      const std::int64_t position = entry >= 0 ? entry - offset : kNoPosition;
      selection.positions.push_back(static_cast<std::int32_t>(std::min(position, kNoPosition)));
    }
  }
  return selection;
}

/// SelectionFormat::positions
RecordedSelection RecordedSelections::visible_entries(const QueryRow& query,
                                                      const std::vector<std::int64_t>& entries) const {
  const std::int64_t position = call_.start_pos + query.second;
  RecordedSelection selection;
  for (const std::int64_t entry : entries) {
    if (entry == -1 || (entry > position && entry < call_.start_pos + call_.seqlen)) continue;
    const std::int64_t seen = entry >= 0 && entry <= position ? entry : kNoPosition;
    selection.positions.push_back(static_cast<std::int32_t>(seen));
  }
  return selection;
}

std::string RecordedSelections::window_fault(const QueryRow& query, const RecordedSelection& recorded) const {
  if (!window_first_) return "";
  if (call_.start_pos > 0 && call_.seqlen > 1) return "";  // which slots held what is not recorded
  const std::int64_t position = call_.start_pos + query.second;
  const std::int64_t first = std::max<std::int64_t>(0, position - window_ + 1);
  std::vector<std::int64_t> expected;
  for (std::int64_t p = first; p <= position; ++p) expected.push_back(call_.start_pos == 0 ? p : p % window_);
  std::sort(expected.begin(), expected.end());
  if (recorded.slots == expected) return "";
  return fmt::format("has other window slots than those of positions {} to {} ({} slots, expected {})", first, position,
                     recorded.slots.size(), expected.size());
}

RecordedCandidates::RecordedCandidates(const CaseFile& file, std::int64_t call, int layer)
    : block_size_(file.shape().candidate_block_size) {
  if (layer >= 0) mask_ = file.recorded(call, layer, "candidates");
}

std::vector<bool> RecordedCandidates::mask(const QueryRow& query, std::int64_t visible) const {
  std::vector<bool> mask = mask_->booleans(query.first, mask_->find(query.second));
  mask.resize(static_cast<std::size_t>(visible));
  return mask;
}

std::optional<std::vector<std::int32_t>> RecordedCandidates::blocks(const QueryRow& query, std::int64_t visible) const {
  const std::vector<bool> allowed = mask(query, visible);
  std::vector<std::int32_t> blocks;
  for (std::int64_t first = 0; first < visible; first += block_size_) {
    const auto begin = allowed.begin() + first, end = allowed.begin() + std::min(first + block_size_, visible);
    const auto inside = std::count(begin, end, true);
    if (inside != 0 && inside != end - begin) return {};
    if (inside != 0) blocks.push_back(static_cast<std::int32_t>(first / block_size_));
  }
  return blocks;
}

}  // namespace skim

// Selections of one layer and call as a recording holds them, taken apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verify/case_file.hpp"

namespace skim {

/// (sequence, row of the call)
using QueryRow = std::pair<int, std::int64_t>;

/// A row of topk_idxs taken apart.
struct RecordedSelection {
  std::vector<std::int64_t> slots;      ///< Of the window, ascending.
  std::vector<std::int32_t> positions;  ///< Compressed, ascending. Impossible entries are beyond what any query sees.
};

/// The topk_idxs of one layer and call.
class RecordedSelections {
 public:
  RecordedSelections(const CaseFile& file, std::int64_t call, int layer);

  bool exists() const { return topk_.has_value(); }
  const std::vector<std::int64_t>& rows() const { return topk_->rows; }
  /// Nothing if it was not recorded.
  std::optional<RecordedSelection> find(const QueryRow& query) const;
  /// Empty if the window slots of a row are those of the window, otherwise what is wrong with them.
  std::string window_fault(const QueryRow& query, const RecordedSelection& recorded) const;

 private:
  RecordedSelection split_entries(const std::vector<std::int64_t>& entries) const;
  RecordedSelection visible_entries(const QueryRow& query, const std::vector<std::int64_t>& entries) const;

  const CaseCall& call_;
  std::int64_t window_;
  bool window_first_;
  std::optional<RecordedTensor> topk_;
};

/// The candidates of one layer and call.
class RecordedCandidates {
 public:
  RecordedCandidates(const CaseFile& file, std::int64_t call, int layer);

  bool exists() const { return mask_.has_value(); }
  bool contains(const QueryRow& query) const { return mask_ && mask_->find(query.second) >= 0; }
  /// Of the visible positions.
  std::vector<bool> mask(const QueryRow& query, std::int64_t visible) const;
  /// Blocks whose visible positions are all true; nothing if a block is neither all true nor all false.
  std::optional<std::vector<std::int32_t>> blocks(const QueryRow& query, std::int64_t visible) const;

 private:
  std::int64_t block_size_;
  std::optional<RecordedTensor> mask_;
};

}  // namespace skim

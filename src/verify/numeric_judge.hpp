// The numeric tensors of one layer and call, compared row by row as they come out of a replay.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skim/verify.hpp"
#include "verify/case_file.hpp"
#include "verify/compare.hpp"

namespace skim {

/// A recorded tensor, or the product of two, and how far the replay is from it so far.
class NumericComparison {
 public:
  /// `scale`: tensor with one factor per head that this one is multiplied with, if it was recorded.
  NumericComparison(const RecordedKind& kind, RecordedTensor recorded, std::optional<RecordedTensor> scale, int batch);

  /// "index_q", or "index_q*index_weights".
  const std::string& name() const { return name_; }
  const RecordedKind& kind() const { return *kind_; }
  /// Compares `row` of a sequence if it was recorded. Heads lie behind one another.
  void add(int sequence, std::int64_t row, std::span<const float> got);
  bool records(std::int64_t row) const { return recorded_.find(row) >= 0; }
  /// Every recorded row was compared.
  bool complete() const { return seen_ == batch_ * recorded_.row_count(); }
  std::int64_t tokens() const { return batch_ * recorded_.row_count(); }
  const ErrorSum& sum() const { return sum_; }
  double worst_row() const { return worst_row_; }
  /// Of the worst row; call and layer are the caller's.
  VerifyPlace worst_place() const { return worst_.place; }
  /// First row, in the order of the recording, that is further off than `bound`.
  std::optional<VerifyPlace> first_beyond(double bound) const;
  /// Relative error of a row, or of a head of it.
  double row_error(const VerifyPlace& place) const;
  /// For pages; keeps both sides of the whole tensor if they were asked for.
  VerifyTensor tensor(std::int64_t call, int layer) const;
  void keep_got() { keeps_got_ = true; }

  std::vector<float> want(int sequence, std::int64_t index) const;

 private:
  std::size_t error_index(int sequence, std::int64_t index, std::int64_t head) const {
    return static_cast<std::size_t>((sequence * recorded_.row_count() + index) * heads_ + head);
  }

  const RecordedKind* kind_;
  std::string name_;
  RecordedTensor recorded_;
  std::optional<RecordedTensor> scale_;
  std::int64_t batch_, heads_;
  double typical_ = 0;  ///< Root mean square norm of a row.
  ErrorSum sum_;
  double worst_row_ = 0;
  VerifyRow worst_;
  std::vector<float> row_errors_;  ///< [batch * rows, heads]
  std::vector<float> got_;
  bool keeps_got_ = false;
  std::int64_t seen_ = 0;
};

class NumericJudge {
 public:
  NumericJudge(const CaseFile& file, std::int64_t call, int layer, bool keep_got);

  bool wants(std::string_view name) const { return parts_.find(name) != parts_.end(); }
  /// Whether `row` of the tensor called `name` was recorded.
  bool records(std::string_view name, std::int64_t row) const;
  /// A row of the tensor called `name`.
  void add(std::string_view name, int sequence, std::int64_t row, std::vector<float> got);
  /// In order of computation.
  const std::vector<NumericComparison>& comparisons() const { return comparisons_; }

 private:
  /// Which comparison a tensor belongs to, and whether it holds the factors of a product.
  struct Part {
    std::size_t comparison = 0;
    bool product = false, factors = false;
  };
  using RowKey = std::pair<int, std::int64_t>;

  std::vector<NumericComparison> comparisons_;
  std::map<std::string, Part, std::less<>> parts_;
  /// By comparison: rows that wait for the other tensor of their product.
  std::map<std::size_t, std::map<RowKey, std::vector<float>>> waiting_;
};

}  // namespace skim

#include "verify/numeric_judge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace skim {
namespace {

/// values: [heads * width]; factors: [heads].
void multiply_heads(std::vector<float>& values, std::span<const float> factors) {
  const std::size_t width = values.size() / factors.size();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / width];
}

/// Scores must be -inf where a query cannot see, and nothing else that is no number.
bool has_other_than_lowest(std::span<const float> row) {
  return std::any_of(row.begin(), row.end(), [](float value) {
    return !std::isfinite(value) && value != -std::numeric_limits<float>::infinity();
  });
}

}  // namespace

NumericComparison::NumericComparison(const RecordedKind& kind, RecordedTensor recorded,
                                     std::optional<RecordedTensor> scale, int batch)
    : kind_(&kind),
      name_(kind.name),
      recorded_(std::move(recorded)),
      scale_(std::move(scale)),
      batch_(batch),
      heads_(recorded_.width > 0 && recorded_.width % kind.heads == 0 ? kind.heads : 1) {
  if (scale_) name_ += "*" + std::string(kind.factors);
  double squares = 0;
  for (int sequence = 0; sequence < batch; ++sequence) {
    for (std::int64_t i = 0; i < recorded_.row_count(); ++i) {
      for (const float value : want(sequence, i)) {
        if (std::isfinite(value)) squares += static_cast<double>(value) * value;
      }
    }
  }
  const std::int64_t count = batch_ * recorded_.row_count() * heads_;
  typical_ = std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(count, 1)));
  row_errors_.resize(static_cast<std::size_t>(count));
}

std::vector<float> NumericComparison::want(int sequence, std::int64_t index) const {
  std::vector<float> values = recorded_.floats(sequence, index);
  if (scale_) multiply_heads(values, scale_->floats(sequence, index));
  return values;
}

void NumericComparison::add(int sequence, std::int64_t row, std::span<const float> got) {
  const std::int64_t index = recorded_.find(row);
  if (index < 0) return;
  const std::vector<float> expected = want(sequence, index);
  const std::size_t width = expected.size() / static_cast<std::size_t>(heads_);
  ++seen_;
  for (std::int64_t head = 0; head < heads_; ++head) {
    const auto first = static_cast<std::size_t>(head) * width;
    const std::span<const float> want_head = std::span(expected).subspan(first, width);
    const std::size_t computed = got.size() - std::min(first, got.size());  // scores end where visibility does
    const std::span<const float> got_head = got.subspan(got.size() - computed, std::min(width, computed));
    ErrorSum error = compare_row(got_head, want_head);
    if (kind_->use == RecordedUse::scores && has_other_than_lowest(want_head)) error.unlike = true;
    sum_.add(error);
    const auto relative = static_cast<float>(relative_row_error(error, typical_));
    row_errors_[error_index(sequence, index, head)] = relative;
    if (relative <= worst_row_ && !worst_.want.empty()) continue;
    worst_row_ = relative;
    worst_.place = {-1, -1, sequence, row, heads_ > 1 ? static_cast<int>(head) : -1};
    worst_.want.assign(want_head.begin(), want_head.end());
    worst_.got.assign(got_head.begin(), got_head.end());
  }
  if (!keeps_got_) return;
  got_.resize(static_cast<std::size_t>(tokens()) * expected.size());
  std::copy_n(got.begin(), std::min(got.size(), expected.size()),
              got_.begin() + (sequence * recorded_.row_count() + index) * static_cast<std::int64_t>(expected.size()));
}

std::optional<VerifyPlace> NumericComparison::first_beyond(double bound) const {
  const auto found =
      std::find_if(row_errors_.begin(), row_errors_.end(), [&](float error) { return !(error <= bound); });
  if (found == row_errors_.end()) return {};
  const std::int64_t place = found - row_errors_.begin(), token = place / heads_;
  return VerifyPlace{-1, -1, static_cast<int>(token / recorded_.row_count()),
                     recorded_.rows[static_cast<std::size_t>(token % recorded_.row_count())],
                     heads_ > 1 ? static_cast<int>(place % heads_) : -1};
}

double NumericComparison::row_error(const VerifyPlace& place) const {
  return row_errors_[error_index(place.sequence, recorded_.find(place.row), std::max(place.head, 0))];
}

VerifyTensor NumericComparison::tensor(std::int64_t call, int layer) const {
  VerifyTensor tensor{.name = name_,
                      .place = {call, layer, -1, -1, -1},
                      .error = sum_.relative(),
                      .row_errors = row_errors_,
                      .batch = batch_,
                      .rows = recorded_.row_count(),
                      .heads = heads_,
                      .row_numbers = recorded_.rows,
                      .worst = worst_,
                      .got = got_,
                      .want = {}};
  tensor.worst.place.call = call;
  tensor.worst.place.layer = layer;
  for (std::int64_t i = 0; keeps_got_ && i < tokens(); ++i) {
    const auto sequence = static_cast<int>(i / recorded_.row_count());
    const std::vector<float> row = want(sequence, i % recorded_.row_count());
    tensor.want.insert(tensor.want.end(), row.begin(), row.end());
  }
  return tensor;
}

NumericJudge::NumericJudge(const CaseFile& file, std::int64_t call, int layer, bool keep_got) {
  const int batch = file.calls()[static_cast<std::size_t>(call)].batch;
  for (const RecordedKind& kind : file.kinds()) {
    if (kind.is_set() || wants(kind.name)) continue;
    auto recorded = file.recorded(call, layer, kind);
    if (!recorded) continue;
    auto scale = kind.factors.empty() ? std::nullopt : file.recorded(call, layer, kind.factors);
    if (scale && scale->rows != recorded->rows) scale.reset();
    parts_[std::string(kind.name)] = {comparisons_.size(), scale.has_value(), false};
    if (scale) parts_[std::string(kind.factors)] = {comparisons_.size(), true, true};
    comparisons_.emplace_back(kind, std::move(*recorded), std::move(scale), batch);
    if (keep_got) comparisons_.back().keep_got();
  }
}

bool NumericJudge::records(std::string_view name, std::int64_t row) const {
  const auto found = parts_.find(name);
  return found != parts_.end() && comparisons_[found->second.comparison].records(row);
}

void NumericJudge::add(std::string_view name, int sequence, std::int64_t row, std::vector<float> got) {
  const auto found = parts_.find(name);
  if (found == parts_.end()) return;
  const Part& part = found->second;
  NumericComparison& comparison = comparisons_[part.comparison];
  if (!part.product) return comparison.add(sequence, row, got);
  auto& waiting = waiting_[part.comparison];
  const auto other = waiting.find({sequence, row});
  if (other == waiting.end()) {
    waiting[{sequence, row}] = std::move(got);
    return;
  }
  std::vector<float>& values = part.factors ? other->second : got;
  multiply_heads(values, part.factors ? got : other->second);
  comparison.add(sequence, row, values);
  waiting.erase(other);
}

}  // namespace skim

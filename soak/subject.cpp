#include "soak/subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace skim::cli {

CacheOptions random_options(Random& random, const Model& model, int most_threads) {
  CacheOptions options;
  options.max_tokens = random.one_in(3) ? random.between(12, kLongestHistory - 1) : kLongestHistory;
  options.max_sequences = random.one_in(3) ? random.between(2, 7) : options.max_sequences;
  options.rollback = random.pick({0, 1, 3, 8, 16});
  options.page_rows = random.pick({1, 2, 3, 8, 16, 64});
  options.workspace_bytes = random.pick({0, 1 << 16, 1 << 28});
  options.threads = static_cast<int>(random.between(1, most_threads));
  if (random.one_in(2)) {
    const CacheCost cost = cache_cost(model.config(), model.layers(), options);
    options.max_bytes = random.between(2, 6) * cost.bytes_at(random.between(10, kLongestHistory));
  }
  return options;
}

std::string difference(const Snapshot& before, const Snapshot& after) {
  if (before.bytes != after.bytes) return fmt::format("bytes() went from {} to {}", before.bytes, after.bytes);
  if (before.lengths != after.lengths) return "a length changed";
  return before.restorable == after.restorable ? "" : "restorable lengths changed";
}

Tracked& Subject::tracked(SequenceId id) {
  return *std::find_if(sequences.begin(), sequences.end(), [id](const Tracked& known) { return known.id == id; });
}

Tracked& Subject::any(Random& random) {
  return *std::next(sequences.begin(), static_cast<std::ptrdiff_t>(random.index(sequences.size())));
}

Snapshot Subject::snapshot() const {
  Snapshot now{cache.bytes(), {}, {}};
  for (const Tracked& sequence : sequences) {
    now.lengths.push_back(cache.length(sequence.id));
    now.restorable.push_back(cache.restorable(sequence.id));
  }
  return now;
}

std::string Subject::restorable_problem(const Tracked& sequence) const {
  const std::vector<LengthRange> ranges = cache.restorable(sequence.id);
  const std::int64_t length = sequence.history.length();
  if (ranges.empty() || ranges.front().first != 0) return "does not begin with 0";
  if (ranges.back().last != length) return "does not end with the length";
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].first > ranges[i].last) return "has an empty range";
    if (i > 0 && ranges[i].first <= ranges[i - 1].last + 1) return "has ranges that touch";
  }
  const std::int64_t promised =
      rolls_back_freely_ ? 0 : std::clamp<std::int64_t>(sequence.reached - options.rollback, 0, length);
  return ranges.back().first <= promised ? "" : fmt::format("lacks a length from {} on", promised);
}

std::string Subject::problem() const {
  for (const Tracked& sequence : sequences) {
    const std::int64_t length = cache.length(sequence.id);
    if (length != sequence.history.length()) {
      return fmt::format("sequence {}: length() is {}, expected {}", sequence.id.value, length,
                         sequence.history.length());
    }
    const std::string wrong = restorable_problem(sequence);
    if (!wrong.empty()) return fmt::format("sequence {}: restorable() {}", sequence.id.value, wrong);
  }
  const std::int64_t bytes = cache.bytes();
  if (options.max_bytes > 0 && bytes > options.max_bytes) {
    return fmt::format("bytes() is {}, but max_bytes {}", bytes, options.max_bytes);
  }
  const bool all_empty = std::all_of(sequences.begin(), sequences.end(),
                                     [](const Tracked& sequence) { return sequence.history.tokens.empty(); });
  return all_empty && bytes != 0 ? fmt::format("bytes() is {} without any token", bytes) : "";
}

bool Subject::can_restore(const Tracked& sequence, std::int64_t length) const {
  const std::vector<LengthRange> ranges = cache.restorable(sequence.id);
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const LengthRange& range) { return range.first <= length && length <= range.last; });
}

std::int64_t Subject::restorable_length(const Tracked& sequence, Random& random) const {
  std::vector<std::int64_t> lengths;
  for (const LengthRange& range : cache.restorable(sequence.id)) {
    for (std::int64_t length = range.first; length <= range.last; ++length) lengths.push_back(length);
  }
  return lengths[random.index(lengths.size())];
}

}  // namespace skim::cli

#include "soak/table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skim::cli {

constexpr std::size_t kMostCompany = 4;  // sequences in one batch
constexpr std::int64_t kLongestProbe = 4;

void SoakTable::expect(bool holds, const std::string& otherwise) {
  if (!holds && report.difference.empty()) report.difference = otherwise;
}

void SoakTable::note_bytes() {
  const std::int64_t bytes = subject->cache.bytes(), most = subject->options.max_bytes;
  report.largest_bytes = std::max(report.largest_bytes, bytes);
  expect(most == 0 || bytes <= most, fmt::format("bytes() is {}, but max_bytes {}", bytes, most));
}

bool SoakTable::goes_through(const std::function<void()>& call, ErrorCode otherwise) {
  const Snapshot before = subject->snapshot();
  try {
    call();
    note_bytes();
    return true;
  } catch (const Error& error) {
    expect(error.code() == otherwise, fmt::format("refused with another code than expected: {}", error.what()));
    const std::string changed = difference(before, subject->snapshot());
    expect(changed.empty(), fmt::format("refused ({}), but {}", error.what(), changed));
    ++report.refusals;
    return false;
  }
}

std::optional<SequenceId> SoakTable::add() {
  const bool room = static_cast<std::int64_t>(subject->sequences.size()) < subject->options.max_sequences;
  std::optional<SequenceId> id;
  goes_through([&] { id = subject->cache.add(); }, ErrorCode::limit_exceeded);
  expect(id.has_value() == room,
         fmt::format("add {} beside {} sequences, max_sequences is {}", id ? "went through" : "was refused",
                     subject->sequences.size(), subject->options.max_sequences));
  if (id) subject->sequences.push_back({*id, {}, 0});
  return id;
}

std::optional<SequenceId> SoakTable::fork(const Tracked& parent, std::int64_t length) {
  const CacheOptions& limits = subject->options;
  const std::int64_t before = subject->cache.bytes();
  const std::int64_t rings = cache_cost(model.config(), model.layers(), limits.rollback).bytes_fixed;
  std::optional<SequenceId> id;
  goes_through([&] { id = subject->cache.fork(parent.id, length); }, ErrorCode::limit_exceeded);
  if (!id) {
    const bool full = static_cast<std::int64_t>(subject->sequences.size()) >= limits.max_sequences;
    expect(full || (limits.max_bytes > 0 && before + rings > limits.max_bytes), "fork refused though there is room");
    return id;
  }
  const std::int64_t cost = subject->cache.bytes() - before;
  expect(cost <= (length > 0 ? rings : 0), fmt::format("fork took {} bytes, rings are {}", cost, rings));
  subject->sequences.push_back({*id, parent.history, length > 0 ? parent.reached : 0});
  subject->sequences.back().history.truncate(length);
  return id;
}

void SoakTable::load(const std::filesystem::path& file, const Tracked& original) {
  const CacheOptions& limits = subject->options;
  const std::int64_t before = subject->cache.bytes();
  const std::int64_t rings = cache_cost(model.config(), model.layers(), limits.rollback).bytes_fixed;
  std::optional<SequenceId> id;
  goes_through([&] { id = subject->cache.load(file); }, ErrorCode::limit_exceeded);
  if (!id) {
    const bool full = static_cast<std::int64_t>(subject->sequences.size()) >= limits.max_sequences;
    expect(full || (limits.max_bytes > 0 && before + rings > limits.max_bytes), "load refused though there is room");
    return;
  }
  subject->sequences.push_back({*id, original.history, original.reached});
}

void SoakTable::truncate(Tracked& sequence, std::int64_t length) {
  const std::int64_t before = subject->cache.bytes();
  subject->cache.truncate(sequence.id, length);
  expect(subject->cache.bytes() <= before, "truncate took bytes");
  sequence.history.truncate(length);
  if (length == 0) sequence.reached = 0;
}

void SoakTable::remove(SequenceId id) {
  const std::int64_t before = subject->cache.bytes();
  subject->cache.remove(id);
  expect(subject->cache.bytes() <= before, "remove took bytes");
  subject->sequences.remove_if([id](const Tracked& sequence) { return sequence.id == id; });
}

std::optional<Batch> SoakTable::begin(const std::vector<Portion>& portions) {
  const CacheOptions& limits = subject->options;
  const std::vector<BatchEntry> entries = entries_of(portions);
  const std::optional<std::string> problem = subject->cache.admission_problem(entries);
  const bool too_long = std::any_of(portions.begin(), portions.end(), [&](const Portion& portion) {
    return portion.start + portion.count() > limits.max_tokens;
  });
  std::optional<Batch> batch;
  goes_through([&] { batch.emplace(subject->cache.begin(entries)); }, ErrorCode::limit_exceeded);
  expect(batch.has_value() != problem.has_value(),
         batch ? "begin went through, admission_problem was: " + problem.value_or("") : "can_admit, but begin refused");
  expect(!batch || !too_long, fmt::format("begin went through beyond max_tokens, {}", limits.max_tokens));
  expect(batch || too_long || limits.max_bytes > 0, "begin refused though no limit is near");
  return batch;
}

void SoakTable::accept(const Portion& portion, const std::vector<TokenOutputs>& outputs, std::int64_t accepted) {
  Tracked& sequence = subject->tracked(portion.sequence);
  const auto count = static_cast<std::size_t>(accepted);
  sequence.history.append(std::span(portion.tokens).first(count), std::span(outputs).first(count));
  sequence.reached = std::max(sequence.reached, sequence.history.length());
}

void SoakTable::extend(const std::vector<Portion>& portions) {
  std::optional<Batch> batch = begin(portions);
  if (!batch) return;
  const Outputs outputs = forward_all(*batch, portions);
  batch->commit();
  for (std::size_t i = 0; i < portions.size(); ++i) accept(portions[i], outputs[i], portions[i].count());
}

Portion SoakTable::draw_portion(const Tracked& sequence, std::int64_t longest) {
  const std::int64_t length = sequence.history.length(), room = subject->longest() - length;
  const std::int64_t wanted = random.one_in(2) ? 1 : random.between(1, longest);
  return {sequence.id, length, random_tokens(random, std::min(wanted, room))};
}

std::vector<Portion> SoakTable::draw_portions(std::int64_t longest) {
  std::vector<const Tracked*> open;
  for (const Tracked& sequence : subject->sequences) {
    if (sequence.history.length() < subject->longest()) open.push_back(&sequence);
  }
  random.shuffle(open);
  if (open.size() > 1) open.resize(1 + random.index(std::min(open.size(), kMostCompany)));
  std::vector<Portion> portions;
  portions.reserve(open.size());
  for (const Tracked* sequence : open) portions.push_back(draw_portion(*sequence, longest));
  return portions;
}

std::optional<History> SoakTable::continued(const Tracked& sequence, const std::vector<Token>& tokens) {
  if (random.one_in(2)) {
    if (const std::optional<SequenceId> child = fork(sequence, sequence.history.length())) {
      extend({{*child, sequence.history.length(), tokens}});
      const History history = subject->tracked(*child).history;
      remove(*child);
      return history.length() > sequence.history.length() ? std::optional(history) : std::nullopt;
    }
  }
  const std::vector<Portion> portions = {{sequence.id, sequence.history.length(), tokens}};
  std::optional<Batch> batch = begin(portions);
  if (!batch) return {};
  History history = sequence.history;
  history.append(tokens, forward_all(*batch, portions).front());
  return history;
}

void SoakTable::check(const Tracked& sequence) {
  const std::int64_t length = sequence.history.length();
  ++report.checks;
  report.checked_tokens += length;
  const CacheOptions options = {
      .max_tokens = subject->options.max_tokens, .page_rows = random.between(1, 64), .threads = 1};
  Replay replay(model, options);
  const auto compare = [&](const History& found, const char* what) {
    const std::string different = difference(found, replay.history(), model.layers());
    expect(different.empty(),
           fmt::format("sequence {} of {} tokens{}: {}", sequence.id.value, length, what, different));
  };
  replay.feed(sequence.history.tokens, random);
  compare(sequence.history, "");
  const std::int64_t room = subject->options.max_tokens - length;
  const std::vector<Token> further = random_tokens(random, std::min(random.between(1, kLongestProbe), room));
  if (further.empty()) return;
  const std::optional<History> more = continued(sequence, further);
  if (!more) return;
  replay.feed(further, random);
  compare(*more, ", continued");
}

void SoakTable::check_all() {
  // Continuing one puts a sequence of its own behind the others, and takes it away again.
  for (const Tracked& sequence : subject->sequences) check(sequence);
}

}  // namespace skim::cli

#include "soak/operations.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace skim::cli {
namespace {

constexpr std::size_t kPopulation = 8;  // sequences at one time
constexpr std::int64_t kLongestPrefill = 40, kLongestDraft = 8;

std::string text(const std::vector<Portion>& portions) {
  std::string all;
  for (const Portion& portion : portions) {
    all += fmt::format("{}sequence {} at {} by {}", all.empty() ? "" : ", ", portion.sequence.value, portion.start,
                       portion.count());
  }
  return all;
}

void add(SoakTable& table) { table.add(); }

void remove(SoakTable& table) {
  const auto& sequences = table.subject->sequences;
  const auto longest = std::max_element(sequences.begin(), sequences.end(), [](const Tracked& a, const Tracked& b) {
    return a.history.length() < b.history.length();
  });
  const Tracked& sequence = table.random.one_in(2) ? *longest : table.subject->any(table.random);
  table.say(fmt::format("sequence {} at {}", sequence.id.value, sequence.history.length()));
  if (table.random.one_in(2)) table.check(sequence);
  table.remove(sequence.id);
}

void extend(SoakTable& table) {
  const std::vector<Portion> portions = table.draw_portions(kLongestPrefill);
  if (portions.empty()) return remove(table);
  table.say(text(portions));
  table.extend(portions);
}

/// Commits as many tokens as rollback allows. If it does not allow the first choice, that must be refused.
void commit_some(SoakTable& table, Batch& batch, const Portion& portion, const std::vector<TokenOutputs>& outputs) {
  const std::int64_t count = portion.count();
  std::int64_t accepted = table.random.between(0, count);
  const bool allowed = accepted == 0 || table.subject->may_reject(count - accepted);
  if (!table.goes_through([&] { batch.commit(portion.sequence, accepted); }, ErrorCode::limit_exceeded)) {
    table.expect(!allowed, fmt::format("{} of {} tokens: commit refused", accepted, count));
    accepted = count - table.random.between(0, std::min(count, table.subject->options.rollback));
    batch.commit(portion.sequence, accepted);
  } else {
    table.expect(allowed, fmt::format("{} of {} tokens: commit went through beyond rollback", accepted, count));
  }
  table.accept(portion, outputs, accepted);
}

void speculate(SoakTable& table) {
  const std::vector<Portion> portions = table.draw_portions(kLongestDraft);
  if (portions.empty()) return remove(table);
  table.say(text(portions));
  std::optional<Batch> batch = table.begin(portions);
  if (!batch) return;
  const SoakTable::Outputs outputs = table.forward_all(*batch, portions);
  std::vector<std::size_t> order(portions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  table.random.shuffle(order);
  for (const std::size_t i : order) {
    if (table.random.one_in(4)) continue;  // dropped with the batch
    commit_some(table, *batch, portions[i], outputs[i]);
    if (!table.random.one_in(6)) continue;
    // Committed, it is free for another batch though this one is still there.
    const Portion more = table.draw_portion(table.subject->tracked(portions[i].sequence), kLongestDraft);
    if (more.count() > 0) table.extend({more});
  }
}

void fork(SoakTable& table) {
  const Tracked& parent = table.subject->any(table.random);
  const std::int64_t length =
      table.random.one_in(2) ? parent.history.length() : table.subject->restorable_length(parent, table.random);
  table.say(fmt::format("sequence {} of {} at {}", parent.id.value, parent.history.length(), length));
  table.fork(parent, length);
}

void truncate(SoakTable& table) {
  Tracked& sequence = table.subject->any(table.random);
  const std::int64_t length = table.subject->restorable_length(sequence, table.random);
  table.say(fmt::format("sequence {} from {} to {}", sequence.id.value, sequence.history.length(), length));
  table.truncate(sequence, length);
}

/// A batch dropped after some of its layers.
void cancel(SoakTable& table) {
  const std::vector<Portion> portions = table.draw_portions(kLongestPrefill);
  if (portions.empty()) return remove(table);
  const std::size_t layers = table.random.index(table.model.layers().size() + 1);
  table.say(fmt::format("{}, after {} layers", text(portions), layers));
  const Snapshot before = table.subject->snapshot();
  std::optional<Batch> batch = table.begin(portions);
  if (!batch) return;
  forward(table.model, *batch, portions, layers);
  if (layers < table.model.layers().size()) {
    const bool committed = table.goes_through([&] { batch->commit(); }, ErrorCode::wrong_order);
    table.expect(!committed, "commit went through before all layers ran");
  }
  batch.reset();
  table.expect_none(difference(before, table.subject->snapshot()));
}

/// A sequence goes to a file, and comes back beside itself.
void save_and_load(SoakTable& table) {
  const Tracked& sequence = table.subject->any(table.random);
  table.say(fmt::format("sequence {} at {}", sequence.id.value, sequence.history.length()));
  const std::filesystem::path file = std::filesystem::temp_directory_path() / fmt::format("skim-soak-{}", ::getpid());
  table.subject->cache.save(sequence.id, file);
  table.load(file, sequence);
  std::filesystem::remove(file);
}

void exceed_tokens(SoakTable& table) {
  std::vector<Portion> portions = table.draw_portions(kLongestPrefill);
  if (portions.empty()) return;
  Portion& guilty = portions[table.random.index(portions.size())];
  const std::int64_t room = table.subject->options.max_tokens - guilty.start;
  guilty.tokens = random_tokens(table.random, room + table.random.between(1, 5));
  table.say(fmt::format("max_tokens {}: {}", table.subject->options.max_tokens, text(portions)));
  table.begin(portions);
}

void exceed_sequences(SoakTable& table) {
  table.say(fmt::format("max_sequences {}", table.subject->options.max_sequences));
  std::vector<SequenceId> added;
  while (const std::optional<SequenceId> id = table.add()) added.push_back(*id);
  for (const SequenceId id : added) table.remove(id);
}

/// A length that is no more, or not yet.
void exceed_restorable(SoakTable& table) {
  const Tracked& sequence = table.subject->any(table.random);
  const std::int64_t length = table.random.between(1, sequence.history.length() + 1);
  if (table.subject->can_restore(sequence, length)) return;
  table.say(fmt::format("sequence {} of {} back to {}", sequence.id.value, sequence.history.length(), length));
  KvCache& cache = table.subject->cache;
  const bool truncated = table.goes_through([&] { cache.truncate(sequence.id, length); }, ErrorCode::invalid_argument);
  const bool forked = table.goes_through([&] { cache.fork(sequence.id, length); }, ErrorCode::invalid_argument);
  table.expect(!truncated && !forked, "went through, but restorable() lacks that length");
}

void exceed(SoakTable& table) {
  const std::int64_t limit = table.random.between(1, 3);
  if (limit == 1) return exceed_tokens(table);
  if (limit == 2 && table.subject->options.max_sequences < std::int64_t{2 * kPopulation}) {
    return exceed_sequences(table);
  }
  exceed_restorable(table);
}

constexpr Operation kOperations[] = {{"add", 6, add},        {"extend", 30, extend},    {"speculate", 20, speculate},
                                     {"fork", 10, fork},     {"truncate", 8, truncate}, {"remove", 6, remove},
                                     {"cancel", 10, cancel}, {"exceed", 10, exceed},    {"save", 5, save_and_load}};

const Operation& named(std::string_view name) {
  return *std::find_if(std::begin(kOperations), std::end(kOperations),
                       [name](const Operation& operation) { return operation.name == name; });
}

const Operation& draw(Random& random) {
  const int total = std::accumulate(std::begin(kOperations), std::end(kOperations), 0,
                                    [](int sum, const Operation& operation) { return sum + operation.weight; });
  std::int64_t ticket = random.between(1, total);
  const Operation* operation = std::begin(kOperations);
  while (ticket > operation->weight) ticket -= (operation++)->weight;
  return *operation;
}

}  // namespace

std::span<const Operation> operations() { return kOperations; }

void run_any(SoakTable& table) {
  const std::size_t count = table.subject->sequences.size();
  const Operation* operation = count == 0 ? &named("add") : &draw(table.random);
  const bool grows = operation->name == "add" || operation->name == "fork" || operation->name == "save";
  if (grows && count >= kPopulation) operation = &named("remove");
  ++table.report.operations[operation->name];
  table.report.kind = operation->name;
  table.say("");
  operation->run(table);
}

}  // namespace skim::cli

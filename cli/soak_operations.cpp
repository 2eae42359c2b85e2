#include "soak_operations.hpp"

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

void add(Bench& bench) { bench.add(); }

void remove(Bench& bench) {
  const auto& sequences = bench.subject->sequences;
  const auto longest = std::max_element(sequences.begin(), sequences.end(), [](const Tracked& a, const Tracked& b) {
    return a.history.length() < b.history.length();
  });
  const Tracked& sequence = bench.random.one_in(2) ? *longest : bench.subject->any(bench.random);
  bench.say(fmt::format("sequence {} at {}", sequence.id.value, sequence.history.length()));
  if (bench.random.one_in(2)) bench.check(sequence);
  bench.remove(sequence.id);
}

void extend(Bench& bench) {
  const std::vector<Portion> portions = bench.draw_portions(kLongestPrefill);
  if (portions.empty()) return remove(bench);
  bench.say(text(portions));
  bench.extend(portions);
}

/// Commits as many tokens as rollback allows. If it does not allow the first choice, that must be refused.
void commit_some(Bench& bench, Batch& batch, const Portion& portion, const std::vector<TokenOutputs>& outputs) {
  const std::int64_t count = portion.count();
  std::int64_t accepted = bench.random.between(0, count);
  const bool allowed = accepted == 0 || bench.subject->may_reject(count - accepted);
  if (!bench.goes_through([&] { batch.commit(portion.sequence, accepted); }, ErrorCode::limit_exceeded)) {
    bench.expect(!allowed, fmt::format("{} of {} tokens: commit refused", accepted, count));
    accepted = count - bench.random.between(0, std::min(count, bench.subject->options.rollback));
    batch.commit(portion.sequence, accepted);
  } else {
    bench.expect(allowed, fmt::format("{} of {} tokens: commit went through beyond rollback", accepted, count));
  }
  bench.accept(portion, outputs, accepted);
}

void speculate(Bench& bench) {
  const std::vector<Portion> portions = bench.draw_portions(kLongestDraft);
  if (portions.empty()) return remove(bench);
  bench.say(text(portions));
  std::optional<Batch> batch = bench.begin(portions);
  if (!batch) return;
  const Bench::Outputs outputs = bench.forward_all(*batch, portions);
  std::vector<std::size_t> order(portions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  bench.random.shuffle(order);
  for (const std::size_t i : order) {
    if (bench.random.one_in(4)) continue;  // dropped with the batch
    commit_some(bench, *batch, portions[i], outputs[i]);
    if (!bench.random.one_in(6)) continue;
    // Committed, it is free for another batch though this one is still there.
    const Portion more = bench.draw_portion(bench.subject->tracked(portions[i].sequence), kLongestDraft);
    if (more.count() > 0) bench.extend({more});
  }
}

void fork(Bench& bench) {
  const Tracked& parent = bench.subject->any(bench.random);
  const std::int64_t length =
      bench.random.one_in(2) ? parent.history.length() : bench.subject->restorable_length(parent, bench.random);
  bench.say(fmt::format("sequence {} of {} at {}", parent.id.value, parent.history.length(), length));
  bench.fork(parent, length);
}

void truncate(Bench& bench) {
  Tracked& sequence = bench.subject->any(bench.random);
  const std::int64_t length = bench.subject->restorable_length(sequence, bench.random);
  bench.say(fmt::format("sequence {} from {} to {}", sequence.id.value, sequence.history.length(), length));
  bench.truncate(sequence, length);
}

/// A batch dropped after some of its layers.
void cancel(Bench& bench) {
  const std::vector<Portion> portions = bench.draw_portions(kLongestPrefill);
  if (portions.empty()) return remove(bench);
  const std::size_t layers = bench.random.index(bench.model.layers().size() + 1);
  bench.say(fmt::format("{}, after {} layers", text(portions), layers));
  const Snapshot before = bench.subject->snapshot();
  std::optional<Batch> batch = bench.begin(portions);
  if (!batch) return;
  forward(bench.model, *batch, portions, layers);
  if (layers < bench.model.layers().size()) {
    const bool committed = bench.goes_through([&] { batch->commit(); }, ErrorCode::wrong_order);
    bench.expect(!committed, "commit went through before all layers ran");
  }
  batch.reset();
  bench.expect_none(difference(before, bench.subject->snapshot()));
}

/// A sequence goes to a file, and comes back beside itself.
void save_and_load(Bench& bench) {
  const Tracked& sequence = bench.subject->any(bench.random);
  bench.say(fmt::format("sequence {} at {}", sequence.id.value, sequence.history.length()));
  const std::filesystem::path file = std::filesystem::temp_directory_path() / fmt::format("skim-soak-{}", ::getpid());
  bench.subject->cache.save(sequence.id, file);
  bench.load(file, sequence);
  std::filesystem::remove(file);
}

void exceed_tokens(Bench& bench) {
  std::vector<Portion> portions = bench.draw_portions(kLongestPrefill);
  if (portions.empty()) return;
  Portion& guilty = portions[bench.random.index(portions.size())];
  const std::int64_t room = bench.subject->options.max_tokens - guilty.start;
  guilty.tokens = random_tokens(bench.random, room + bench.random.between(1, 5));
  bench.say(fmt::format("max_tokens {}: {}", bench.subject->options.max_tokens, text(portions)));
  bench.begin(portions);
}

void exceed_sequences(Bench& bench) {
  bench.say(fmt::format("max_sequences {}", bench.subject->options.max_sequences));
  std::vector<SequenceId> added;
  while (const std::optional<SequenceId> id = bench.add()) added.push_back(*id);
  for (const SequenceId id : added) bench.remove(id);
}

/// A length that is no more, or not yet.
void exceed_restorable(Bench& bench) {
  const Tracked& sequence = bench.subject->any(bench.random);
  const std::int64_t length = bench.random.between(1, sequence.history.length() + 1);
  if (bench.subject->can_restore(sequence, length)) return;
  bench.say(fmt::format("sequence {} of {} back to {}", sequence.id.value, sequence.history.length(), length));
  KvCache& cache = bench.subject->cache;
  const bool truncated = bench.goes_through([&] { cache.truncate(sequence.id, length); }, ErrorCode::invalid_argument);
  const bool forked = bench.goes_through([&] { cache.fork(sequence.id, length); }, ErrorCode::invalid_argument);
  bench.expect(!truncated && !forked, "went through, but restorable() lacks that length");
}

void exceed(Bench& bench) {
  const std::int64_t limit = bench.random.between(1, 3);
  if (limit == 1) return exceed_tokens(bench);
  if (limit == 2 && bench.subject->options.max_sequences < std::int64_t{2 * kPopulation}) {
    return exceed_sequences(bench);
  }
  exceed_restorable(bench);
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

void run_any(Bench& bench) {
  const std::size_t count = bench.subject->sequences.size();
  const Operation* operation = count == 0 ? &named("add") : &draw(bench.random);
  const bool grows = operation->name == "add" || operation->name == "fork" || operation->name == "save";
  if (grows && count >= kPopulation) operation = &named("remove");
  ++bench.report.operations[operation->name];
  bench.report.kind = operation->name;
  bench.say("");
  operation->run(bench);
}

}  // namespace skim::cli

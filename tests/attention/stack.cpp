#include "attention/stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/access.hpp"
#include "cache/cache_impl.hpp"

namespace skim::test {
namespace {

/// Records selections of every sequence of a batch, after another trace has seen them.
class SelectionRecorder final : public Trace {
 public:
  SelectionRecorder(std::vector<Outcome*> outcomes, Trace* watcher)
      : outcomes_(std::move(outcomes)), watcher_(watcher != nullptr ? *watcher : nobody_) {}
  bool wants(std::string_view name) override { return watcher_.wants(name); }
  void rows(const TraceRows& event) override { watcher_.rows(event); }
  void scores(const TraceScores& event) override { watcher_.scores(event); }
  void attention(const TraceAttention& event) override { watcher_.attention(event); }
  bool cancelled() override { return watcher_.cancelled(); }
  void candidates(const TraceSelection& event) override {
    watcher_.candidates(event);
    outcomes_[static_cast<std::size_t>(event.sequence)]->candidates[event.layer][event.position] = event.chosen;
  }
  void selection(const TraceSelection& event) override {
    watcher_.selection(event);
    outcomes_[static_cast<std::size_t>(event.sequence)]->selected[event.layer][event.position] = event.chosen;
  }
  void progress(int layer, std::int64_t done, std::int64_t total) override { watcher_.progress(layer, done, total); }

 private:
  std::vector<Outcome*> outcomes_;
  Trace nobody_;
  Trace& watcher_;
};

void append(std::vector<std::byte>& bytes, const void* data, std::int64_t count) {
  const auto* first = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), first, first + count);
}

void append_rows(std::vector<std::byte>& bytes, const ConstPagedRows& rows, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) append(bytes, rows.row(i), rows.row_bytes);
}

}  // namespace

std::string difference(const Outcome& a, const Outcome& b) {
  for (const auto& [layer, out] : a.out) {
    const std::vector<bf16>& other = b.out.at(layer);
    if (out.size() != other.size()) return fmt::format("layer {}: {} or {} outputs", layer, out.size(), other.size());
    const auto [mine, theirs] = std::mismatch(out.begin(), out.end(), other.begin());
    if (mine != out.end()) {
      return fmt::format("layer {}: element {} is {:#06x} or {:#06x}", layer, mine - out.begin(), mine->bits,
                         theirs->bits);
    }
  }
  if (a.selected != b.selected) return "selections differ";
  if (a.candidates != b.candidates) return "candidate blocks differ";
  return a.state == b.state ? "" : "cache contents differ";
}

std::vector<std::byte> state_bytes(const KvCache& cache, SequenceId id) {
  const KvCache::Impl& impl = Access::impl(cache);
  const Sequence& sequence = impl.sequences.at(id.value);
  std::vector<std::byte> bytes;
  append(bytes, &sequence.length, sizeof(sequence.length));
  if (sequence.length == 0) return bytes;
  for (const LayerLayout& layer : impl.layout->layers) {
    for (const TableLayout& table : layer.tables) {
      append_rows(bytes, sequence.tables[table.index].rows(), table.rows(sequence.length));
    }
    for (const RingLayout& ring : layer.rings) {
      for (std::int64_t p = sequence.length - ring.needs(sequence.length); p < sequence.length; ++p) {
        append(bytes, sequence.rings[ring.index].row(p), ring.row_bytes);
      }
    }
  }
  return bytes;
}

std::vector<bf16> hidden_state(const std::string& sequence, int layer, std::int64_t position, std::int64_t dim) {
  const Tensor tensor = synthetic_input(fmt::format("{}.{}.{}", sequence, layer, position), {dim});
  std::vector<bf16> state(static_cast<std::size_t>(dim));
  std::memcpy(state.data(), tensor.bytes.data(), tensor.bytes.size());
  return state;
}

void Tape::rows(const TraceRows& event) {
  if (event.floats.data != nullptr) {
    auto& rows = floats_[{event.layer, std::string(event.name)}];
    for (std::int64_t i = 0; i < event.floats.shape[0] && event.sequence == 0; ++i) {
      rows[event.first + i].assign(event.floats.row(i), event.floats.row(i) + event.floats.shape[1]);
    }
    return;
  }
  Rows& rows = rows_[{event.layer, std::string(event.name), event.sequence}];
  for (std::int64_t i = 0; i < event.rows.shape[0]; ++i) {
    rows[event.first + i].assign(event.rows.row(i), event.rows.row(i) + event.rows.shape[1]);
  }
}

void Tape::scores(const TraceScores& event) {
  scores_[{event.layer, event.position}].assign(event.scores.begin(), event.scores.end());
}

void Tape::selection(const TraceSelection& event) { limits_[{event.layer, event.position}] = event.limit; }

void Stack::add(const std::string& name) { adopt(name, cache_.add()); }

void Stack::adopt(const std::string& name, SequenceId id) {
  ids_[name] = id;
  outcomes_[name] = {};
  sources_[name] = {};
}

void Stack::remove(const std::string& name) {
  cache_.remove(ids_.at(name));
  ids_.erase(name);
}

std::string Stack::source(const std::string& name, std::int64_t position) const {
  const auto exchanged = put_.find({name, position});
  return exchanged == put_.end() ? name : exchanged->second;
}

void Stack::forget(const std::string& name, std::int64_t tokens) {
  Outcome& outcome = outcomes_.at(name);
  for (auto& [layer, out] : outcome.out) {
    out.resize(static_cast<std::size_t>(tokens * hidden_dim(model_.config())));
  }
  for (auto* lists : {&outcome.selected, &outcome.candidates}) {
    for (auto& [layer, by_position] : *lists) by_position.erase(by_position.lower_bound(tokens), by_position.end());
  }
  if (tokens == 0) outcome = {};
  sources_.at(name).resize(static_cast<std::size_t>(tokens));
}

Batch Stack::run(const std::vector<Draft>& drafts) {
  std::vector<BatchEntry> entries;
  std::vector<Outcome> outcomes(drafts.size());
  std::vector<Outcome*> recorded;
  std::vector<std::vector<std::string>> sources;
  for (const auto& [name, tokens, accepted] : drafts) {
    entries.push_back({ids_.at(name), tokens});
    recorded.push_back(&outcomes[recorded.size()]);
    sources.emplace_back();
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::string own = source(name, cache_.length(ids_.at(name)) + i);
      sources.back().push_back(i < accepted.value_or(0) ? own : own + ".draft");
    }
  }
  SelectionRecorder recorder(recorded, watcher_);
  Batch batch = cache_.begin(entries);
  const std::int64_t dim = hidden_dim(model_.config());
  const std::array shape{batch.tokens(), dim};
  for (const int layer : model_.layers()) {
    std::vector<bf16> x, out(static_cast<std::size_t>(batch.tokens() * dim));
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      std::int64_t position = cache_.length(entries[i].sequence);
      for (const std::string& name : sources[i]) {
        const std::vector<bf16> state = hidden_state(name, layer, position++, dim);
        x.insert(x.end(), state.begin(), state.end());
      }
    }
    model_.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape), &recorder);
    auto next = out.begin();
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      const auto last = next + drafts[i].tokens * dim;
      outcomes[i].out[layer].assign(next, last);
      next = last;
    }
  }
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (drafts[i].accepted.value_or(0) > 0) record(drafts[i], outcomes[i], sources[i]);
  }
  return batch;
}

void Stack::record(const Draft& draft, const Outcome& outcome, const std::vector<std::string>& sources) {
  Outcome& all = outcomes_.at(draft.name);
  for (const auto& [layer, out] : outcome.out) {
    const auto elements = out.size() / sources.size() * static_cast<std::size_t>(*draft.accepted);
    all.out[layer].insert(all.out[layer].end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(elements));
  }
  for (const auto& [layer, lists] : outcome.selected) all.selected[layer].insert(lists.begin(), lists.end());
  for (const auto& [layer, lists] : outcome.candidates) all.candidates[layer].insert(lists.begin(), lists.end());
  std::vector<std::string>& fed = sources_.at(draft.name);
  fed.insert(fed.end(), sources.begin(), sources.end());
  forget(draft.name, static_cast<std::int64_t>(fed.size()) - draft.tokens + *draft.accepted);
}

void Stack::feed(const std::vector<std::pair<std::string, std::int64_t>>& tokens) {
  std::vector<Draft> drafts;
  for (const auto& [name, count] : tokens) drafts.push_back({name, count, count});
  run(drafts).commit();
}

void Stack::feed_and_drop(const std::vector<std::pair<std::string, std::int64_t>>& tokens) {
  std::vector<Draft> drafts;
  for (const auto& [name, count] : tokens) drafts.push_back({name, count, {}});
  run(drafts);
}

void Stack::speculate(const std::vector<Draft>& drafts) {
  Batch batch = run(drafts);
  for (const auto& [name, tokens, accepted] : drafts) {
    if (accepted.has_value()) batch.commit(ids_.at(name), *accepted);
  }
}

void Stack::fork(const std::string& name, const std::string& child, std::int64_t tokens) {
  ids_[child] = cache_.fork(ids_.at(name), tokens);
  outcomes_[child] = outcomes_.at(name);
  sources_[child] = sources_.at(name);
  forget(child, tokens);
}

void Stack::truncate(const std::string& name, std::int64_t tokens) {
  cache_.truncate(ids_.at(name), tokens);
  forget(name, tokens);
}

Outcome Stack::outcome(const std::string& name) const {
  Outcome outcome = outcomes_.at(name);
  outcome.state = state_bytes(cache_, ids_.at(name));
  return outcome;
}

const Outcome& Stack::alone(const std::string& name) {
  const std::vector<std::string>& sources = sources_.at(name);
  const auto known = alone_.find(sources);
  if (known != alone_.end()) return known->second;
  CacheOptions options = options_;
  options.max_bytes = 0;
  Stack stack(model_, options);
  stack.add(name);
  for (std::size_t i = 0; i < sources.size(); ++i) stack.put(name, static_cast<std::int64_t>(i), sources[i]);
  if (!sources.empty()) stack.feed({{name, static_cast<std::int64_t>(sources.size())}});
  return alone_[sources] = stack.outcome(name);
}

std::string Stack::difference_from_alone(const std::string& name) { return difference(alone(name), outcome(name)); }

Outcome run_alone(const Model& model, const CacheOptions& options, const std::string& name,
                  const std::vector<std::int64_t>& pieces) {
  Stack stack(model, options);
  stack.add(name);
  for (const std::int64_t piece : pieces) stack.feed({{name, piece}});
  return stack.outcome(name);
}

}  // namespace skim::test

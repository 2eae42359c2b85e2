// An engine's loop in small: two sequences share batches, drafts are verified and partly accepted, and one conversation
// forks. Made-up weights, hidden states and drafts.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <vector>

#include "skim/skim.hpp"

namespace {

using Tokens = std::vector<int>;

/// Stands for an engine's embedding and MLPs: the hidden state of a token at a layer.
std::vector<skim::bf16> hidden_state(int token, int layer, std::int64_t dim) {
  const skim::Tensor x = skim::synthetic_input("token " + std::to_string(token) + "." + std::to_string(layer), {dim});
  const auto* values = reinterpret_cast<const skim::bf16*>(x.bytes.data());
  return {values, values + dim};
}

/// Stands for an engine's sampling: what comes after a token, from its last hidden state.
int next_token(const skim::bf16* out) { return out[0].bits % 7; }

struct Sequence {
  skim::SequenceId id;
  Tokens pending;  ///< Known, but not in the cache yet: the prompt, or the last token that was sampled.
};

/// How many drafts the model agrees with: out holds one row per fed token, `fed` ends with the drafts.
std::size_t agreed(const skim::bf16* out, std::int64_t dim, const Tokens& fed, std::size_t drafts) {
  std::size_t right = 0;
  const std::size_t first = fed.size() - drafts;
  while (right < drafts && next_token(out + static_cast<std::int64_t>(first + right - 1) * dim) == fed[first + right]) {
    ++right;
  }
  return right;
}

/// One step for all sequences: feed what is pending and two drafts, keep what the model agrees with, sample one more.
void step(const skim::Model& model, skim::KvCache& cache, std::map<char, Sequence>& sequences) {
  constexpr std::size_t kDrafts = 2;
  const std::int64_t dim = skim::hidden_dim(model.config());
  std::vector<skim::BatchEntry> entries;
  std::vector<Tokens> fed;
  for (auto& [name, sequence] : sequences) {
    fed.push_back(sequence.pending);
    fed.back().insert(fed.back().end(), {sequence.pending.back() % 7, 3});  // a poor drafter
    entries.push_back({sequence.id, static_cast<std::int64_t>(fed.back().size())});
  }
  if (const auto problem = cache.admission_problem(entries)) {
    std::printf("not now: %s\n", problem->c_str());
    return;
  }
  skim::Batch batch = cache.begin(entries);
  std::vector<skim::bf16> out(static_cast<std::size_t>(batch.tokens() * dim));
  for (const int layer : model.layers()) {
    std::vector<skim::bf16> x;
    for (const Tokens& tokens : fed) {
      for (const int token : tokens) std::ranges::copy(hidden_state(token, layer, dim), std::back_inserter(x));
    }
    model.forward(layer, batch, {x.data(), {batch.tokens(), dim}}, {out.data(), {batch.tokens(), dim}});
  }
  const skim::bf16* row = out.data();
  std::size_t i = 0;
  for (auto& [name, sequence] : sequences) {
    const std::size_t kept = fed[i].size() - kDrafts + agreed(row, dim, fed[i], kDrafts);
    batch.commit(sequence.id, static_cast<std::int64_t>(kept));
    sequence.pending = {next_token(row + static_cast<std::int64_t>(kept - 1) * dim)};
    std::printf("%c: %zu of %zu tokens kept, %lld in all\n", name, kept, fed[i].size(),
                static_cast<long long>(cache.length(sequence.id)));
    row += static_cast<std::int64_t>(fed[i++].size()) * dim;
  }
}

void run() {
  const skim::Model model(skim::Checkpoint::synthetic(skim::named_config("v41-tiny")));
  skim::KvCache cache(model, {.max_tokens = 4096, .rollback = 2});
  std::map<char, Sequence> sequences = {{'a', {cache.add(), Tokens(40, 1)}}, {'b', {cache.add(), Tokens(25, 2)}}};
  for (int i = 0; i < 3; ++i) step(model, cache, sequences);
  sequences['c'] = {cache.fork(sequences['a'].id), {5}};  // another answer to the same question
  for (int i = 0; i < 3; ++i) step(model, cache, sequences);
  std::printf("caches take %lld bytes\n", static_cast<long long>(cache.bytes()));
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// What went wrong with cached state in other ports: rings, unfinished groups, pages, index keys of earlier calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "attention/stack.hpp"
#include "base/access.hpp"
#include "cache/batch_impl.hpp"
#include "formats/bf16.hpp"

namespace skim::test {
namespace {

CacheOptions options() { return {.max_tokens = 1024, .page_rows = 16, .threads = 1}; }

/// A ratio-2 source followed by a ratio-1 source.
V41Config two_sources() {
  V41Config c = one_layer(2);
  c.n_layers = 2;
  c.compress_ratios = {2, 1};
  c.kv_source_layers = c.index_source_layers = {0, 1};
  c.index_topk = 4;
  return c;
}

const Sequence& sequence(Stack& stack, const std::string& name) {
  return Access::impl(stack.cache()).sequences.at(stack.id(name).value);
}

/// 0xFF is NaN as an e4m3 code and as a scale of either kind, and float32 NaN four times over.
void poison(std::byte* data, std::int64_t bytes) {
  if (bytes > 0) std::memset(data, 0xFF, static_cast<std::size_t>(bytes));
}

TEST(Fault01, AnOpenGroupScoresTheKeysOfItsOwnLayer) {
  const Model model(Checkpoint::synthetic(two_sources()));
  const Outcome whole = run_alone(model, options(), "a", {65});
  const Outcome decoded = run_alone(model, options(), "a", {64, 1});
  EXPECT_EQ(whole.selected.at(0).at(64).size(), 4u);  // of 32: a wrong set of keys would show
  EXPECT_EQ(whole.selected.at(0).at(64), decoded.selected.at(0).at(64));
  for (std::int64_t first = 1; first < 65; ++first) {
    ASSERT_EQ(difference(whole, run_alone(model, options(), "a", {first, 65 - first})), "") << "after " << first;
  }
}

/// Drafts of which some are accepted: nothing of the others remains.
void expect_draft_leaves_nothing(const Model& model, std::int64_t start, std::int64_t width, std::int64_t accepted) {
  Stack drafted(model, options()), plain(model, options());
  for (Stack* stack : {&drafted, &plain}) {
    stack->add("a");
    stack->feed({{"a", start}});
  }
  for (std::int64_t i = accepted; i < width; ++i) drafted.put("a", start + i, "draft");
  drafted.feed_and_drop({{"a", width}});
  for (std::int64_t i = accepted; i < width; ++i) drafted.put("a", start + i, "a");
  for (Stack* stack : {&drafted, &plain}) {
    if (accepted > 0) stack->feed({{"a", accepted}});
  }
  EXPECT_EQ(state_bytes(drafted.cache(), drafted.id("a")), state_bytes(plain.cache(), plain.id("a")));
  EXPECT_EQ(drafted.cache().bytes(), plain.cache().bytes());
  for (Stack* stack : {&drafted, &plain}) stack->feed({{"a", 12}});
  EXPECT_EQ(difference(plain.outcome("a"), drafted.outcome("a")), "");
  EXPECT_EQ(difference(run_alone(model, options(), "a", {start + accepted + 12}), drafted.outcome("a")), "");
}

TEST(Fault03, ARejectedDraftLeavesTheStateOfTheAcceptedTokens) {
  const Model model(Checkpoint::synthetic(one_layer(2)));
  for (const std::int64_t start : {20, 21}) {
    for (std::int64_t accepted = 0; accepted <= 5; ++accepted) {
      SCOPED_TRACE(testing::Message() << accepted << " of 5 accepted after " << start);
      expect_draft_leaves_nothing(model, start, 5, accepted);
    }
  }
}

TEST(Fault04, AContinuationOfSeveralTokensEqualsOneTokenAtATime) {
  const Model model(Checkpoint::synthetic(one_layer(2)));
  Stack chunk(model, options()), steps(model, options());
  Tape chunk_tape({"compress_kv_new", "index_k_new"}), steps_tape({"compress_kv_new", "index_k_new"});
  for (Stack* stack : {&chunk, &steps}) {
    stack->add("a");
    stack->feed({{"a", 7}});
  }
  chunk.watch(&chunk_tape);
  steps.watch(&steps_tape);
  chunk.feed({{"a", 6}});
  for (int i = 0; i < 6; ++i) steps.feed({{"a", 1}});

  std::vector<std::int64_t> closed;
  for (const auto& [group, row] : chunk_tape.tensor(0, "compress_kv_new")) closed.push_back(group);
  EXPECT_EQ(closed, (std::vector<std::int64_t>{3, 4, 5}));
  for (const char* name : {"compress_kv_new", "index_k_new"}) {
    EXPECT_EQ(chunk_tape.tensor(0, name), steps_tape.tensor(0, name)) << name;
  }
  for (std::int64_t p = 7; p <= 12; ++p) {
    EXPECT_EQ(chunk_tape.limit(0, p), (p + 1) / 2);
    EXPECT_EQ(steps_tape.limit(0, p), (p + 1) / 2);
  }
  EXPECT_EQ(difference(chunk.outcome("a"), steps.outcome("a")), "");  // token 12 waits in group 6
}

TEST(Fault12, AContextShorterThanTheWindowClosesItsGroups) {
  V41Config config = two_sources();
  config.window_size = 128;
  const Model model(Checkpoint::synthetic(config));
  CacheOptions roomy = options(), exact = options();
  roomy.max_tokens = roomy.page_rows = 128;
  exact.max_tokens = exact.page_rows = 31;
  Stack stack(model, roomy);
  Tape tape({"latent"});
  stack.add("a");
  stack.watch(&tape);
  stack.feed({{"a", 31}});
  EXPECT_EQ(tape.tensor(0, "latent").size(), 15u);
  EXPECT_EQ(tape.tensor(1, "latent").size(), 31u);
  EXPECT_EQ(difference(run_alone(model, exact, "a", {31}), stack.outcome("a")), "");
  stack.feed({{"a", 1}});  // the token that waited closes group 15
  EXPECT_TRUE(tape.tensor(0, "latent").contains(15));
}

TEST(Fault12, AContextOfOneTokenLessThanAGroupHasNoRows) {
  for (const std::string& name : small_config_names()) {
    const Model model(Checkpoint::synthetic(small_config(name)));
    CacheOptions exact = options();
    for (exact.max_tokens = 1; exact.max_tokens <= 6; ++exact.max_tokens) {
      const std::vector<std::int64_t> steps(static_cast<std::size_t>(exact.max_tokens), 1);
      EXPECT_EQ(difference(run_alone(model, exact, "a", {exact.max_tokens}), run_alone(model, exact, "a", steps)), "")
          << exact.max_tokens << " tokens, " << name;
    }
  }
}

TEST(Fault13, UnfinishedGroupsBelongToSequencesNotToRowsOfTheBatch) {
  for (const std::string& config : small_config_names()) {
    SCOPED_TRACE(config);
    const Model model(Checkpoint::synthetic(small_config(config)));
    Stack stack(model, options());
    for (const char* name : {"a", "b"}) stack.add(name);
    stack.feed({{"a", 7}, {"b", 9}});
    stack.feed({{"b", 4}, {"a", 4}});
    EXPECT_EQ(stack.difference_from_alone("a"), "");
    stack.remove("a");
    stack.add("c");
    stack.feed({{"c", 5}, {"b", 3}});
    for (const char* name : {"b", "c"}) EXPECT_EQ(stack.difference_from_alone(name), "") << name;
  }
}

TEST(Fault13, DraftsThatAreRejectedLeaveNoUnfinishedGroupToAnother) {
  for (const std::string& config : small_config_names()) {
    SCOPED_TRACE(config);
    const Model model(Checkpoint::synthetic(small_config(config)));
    CacheOptions drafting = options();
    drafting.rollback = 4;
    Stack stack(model, drafting);
    for (const char* name : {"a", "b"}) stack.add(name);
    stack.speculate({{"a", 7, 5}, {"b", 9, 8}});
    stack.speculate({{"b", 4, 1}, {"a", 4, 0}});
    stack.feed({{"a", 1}, {"b", 2}});
    for (const char* name : {"a", "b"}) EXPECT_EQ(stack.difference_from_alone(name), "") << name;
  }
}

TEST(Fault30, PaddingNeverEntersAGroup) {
  const Model model(Checkpoint::synthetic(one_layer(4)));
  std::map<std::int64_t, Tape::Rows> latents;
  for (const std::int64_t tokens : {3, 4, 5}) {
    Stack stack(model, options());
    Tape tape({"latent"});
    stack.add("a");
    stack.watch(&tape);
    stack.feed({{"a", tokens}});
    latents[tokens] = tape.tensor(0, "latent");
    const std::vector<std::int64_t> steps(static_cast<std::size_t>(tokens), 1);
    EXPECT_EQ(difference(run_alone(model, options(), "a", steps), stack.outcome("a")), "") << tokens << " tokens";
  }
  EXPECT_TRUE(latents[3].empty());
  EXPECT_EQ(latents[4].size(), 1u);
  EXPECT_EQ(latents[4], latents[5]);
}

/// Feeds 300 tokens and checks after every batch that there are as many index keys as compressed rows. page_rows is 1.
Outcome feed_counting_rows(const Model& model, int ratio, std::int64_t chunk) {
  CacheOptions single = options();
  single.page_rows = 1;
  Stack stack(model, single);
  stack.add("a");
  for (std::int64_t fed = 0; fed < 300;) {
    const std::int64_t count = std::min<std::int64_t>(chunk, 300 - fed);
    stack.feed({{"a", count}});
    fed += count;
    for (const PageTable& table : sequence(stack, "a").tables) EXPECT_EQ(table.pages(), fed / ratio);
  }
  return stack.outcome("a");
}

TEST(Fault31, KeysOfEarlierChunksStayReachable) {
  for (const int ratio : {1, 2, 4}) {
    SCOPED_TRACE(ratio);
    V41Config config = one_layer(ratio);
    config.index_topk = 1;
    const Model model(Checkpoint::synthetic(config));
    const Outcome whole = feed_counting_rows(model, ratio, 300);
    // A needle: the one key that a late query prefers, in a chunk that is long gone.
    const auto& selected = whole.selected.at(0);
    const auto needle = std::find_if(selected.begin(), selected.end(), [&](const auto& entry) {
      return entry.first >= 256 && !entry.second.empty() && entry.second[0] < 48 / ratio;
    });
    ASSERT_NE(needle, selected.end());
    for (const std::int64_t chunk : {128, 64, 7}) {
      const Outcome pieces = feed_counting_rows(model, ratio, chunk);
      EXPECT_EQ(pieces.selected.at(0).at(needle->first), needle->second) << "chunks of " << chunk;
      EXPECT_EQ(difference(whole, pieces), "") << "chunks of " << chunk;
    }
  }
}

TEST(Fault33, DraftsOfAnyWidthCanBeRejected) {
  const Model model(Checkpoint::synthetic(one_layer(4)));
  for (std::int64_t width = 1; width <= 12; ++width) {
    for (std::int64_t accepted = 0; accepted <= width; ++accepted) {
      SCOPED_TRACE(testing::Message() << accepted << " of " << width);
      expect_draft_leaves_nothing(model, 14, width, accepted);
    }
  }
}

/// Everything that the batch may write to for its only sequence, which fills its pages exactly.
void poison_new_rows(const LayerLayout& layer, const BatchSequence& entry, const Staging& staging) {
  for (const TableLayout& table : layer.tables) {
    PageTable& pages = entry.sequence->tables[table.index];
    for (std::int64_t row = table.rows(entry.start); row < table.rows(entry.start + entry.tokens); ++row) {
      poison(pages.rows().row(row), pages.row_bytes());
    }
  }
  for (const RingLayout& ring : layer.rings) {
    poison(staging.rows(ring, 0).data, entry.tokens * ring.row_bytes);
    // Rows that no later token needs.
    const Ring& held = entry.sequence->rings[ring.index];
    for (std::int64_t p = held.first(); p < entry.start - ring.needs(entry.start); ++p) {
      poison(held.row(p), ring.row_bytes);
    }
  }
}

/// Feeds "a" 32 tokens twice into pages of 8 rows, which both times come out exactly full.
std::vector<bf16> fill_pages(const Model& model, bool poisoned) {
  CacheOptions full = options();
  full.page_rows = 8;
  KvCache cache(model, full);
  const SequenceId id = cache.add();
  const std::int64_t dim = hidden_dim(model.config());
  std::vector<bf16> all;
  for (const std::int64_t start : {0, 32}) {
    Batch batch = cache.begin({{id, 32}});
    BatchSequence& entry = Access::impl(batch).sequences[0];
    if (poisoned) {
      for (const LayerLayout& layer : Access::impl(batch).layout().layers) {
        poison_new_rows(layer, entry, Access::impl(batch).staging);
      }
      const Arena::Scope scope(Access::impl(batch).context->arena());
      poison(Access::impl(batch).context->arena().take<std::byte>(4 << 20), 4 << 20);
    }
    for (const int layer : model.layers()) {
      std::vector<bf16> x, out(static_cast<std::size_t>(32 * dim));
      for (std::int64_t i = 0; i < 32; ++i) {
        const std::vector<bf16> state = hidden_state("a", layer, start + i, dim);
        x.insert(x.end(), state.begin(), state.end());
      }
      const std::array<std::int64_t, 2> shape{32, dim};
      model.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape));
      all.insert(all.end(), out.begin(), out.end());
    }
    batch.commit();
  }
  return all;
}

TEST(Fault37, NothingUnwrittenIsReadFromPagesThatAreExactlyFull) {
  for (const std::string& name : small_config_names()) {
    const Model model(Checkpoint::synthetic(small_config(name)));
    const std::vector<bf16> clean = fill_pages(model, false), poisoned = fill_pages(model, true);
    EXPECT_TRUE(clean == poisoned) << name;
    EXPECT_FALSE(std::any_of(poisoned.begin(), poisoned.end(), [](bf16 v) { return (v.bits & 0x7FFF) > 0x7F80; }))
        << name;
  }
}

TEST(Fault38, AChunkLongerThanTheWindowReadsTheRingBeforeReplacingIt) {
  const Model model(Checkpoint::synthetic(one_layer(0)));
  const std::int64_t dim = hidden_dim(model.config());
  const auto feed = [&](std::int64_t changed) {
    Stack stack(model, options());
    stack.add("a");
    if (changed >= 0) stack.put("a", changed, "b");
    stack.feed({{"a", 5}});
    stack.feed({{"a", 20}});
    return stack.outcome("a").out.at(0);
  };
  const std::vector<bf16> original = feed(-1);
  for (std::int64_t changed = 0; changed < 25; ++changed) {
    const std::vector<bf16> out = feed(changed);
    for (std::int64_t p = 0; p < 25; ++p) {
      const bool same = std::equal(out.begin() + p * dim, out.begin() + (p + 1) * dim, original.begin() + p * dim);
      EXPECT_EQ(same, changed < std::max<std::int64_t>(0, p - 7) || changed > p) << changed << " seen from " << p;
    }
  }
}

TEST(Fault38, TheLastWindowOfRowsRemainsInTheRing) {
  const Model model(Checkpoint::synthetic(one_layer(0)));
  Stack stack(model, options());
  Tape tape({"window_kv"});
  stack.add("a");
  stack.watch(&tape);
  stack.feed({{"a", 5}});
  stack.feed({{"a", 20}});
  const RingLayout& ring = Access::impl(stack.cache()).layout->layers[0].ring(kWindow);
  for (std::int64_t p = 17; p < 25; ++p) {
    std::vector<bf16> row(static_cast<std::size_t>(ring.row.width));
    unpack_row(ring.row, sequence(stack, "a").rings[ring.index].data() + p % 8 * ring.row_bytes, row.data());
    EXPECT_EQ(row, tape.tensor(0, "window_kv").at(p)) << p;
  }
}

TEST(Fault43, OnlyTheRowsOfTheBatchChange) {
  constexpr std::int64_t before = 2, tokens = 3, after = 2;
  constexpr bf16 untouched{0x1234};
  for (const std::string& name : small_config_names()) {
    SCOPED_TRACE(name);
    const Model model(Checkpoint::synthetic(small_config(name)));
    const std::int64_t dim = hidden_dim(model.config());
    Stack stack(model, options());
    for (const char* other : {"a", "b", "c"}) stack.add(other);
    stack.feed({{"a", 9}, {"b", 12}, {"c", 5}});
    const std::vector<std::byte> a = state_bytes(stack.cache(), stack.id("a"));
    const std::vector<std::byte> c = state_bytes(stack.cache(), stack.id("c"));
    Batch batch = stack.cache().begin({{stack.id("b"), tokens}});
    for (const int layer : model.layers()) {
      std::vector<bf16> x, out(static_cast<std::size_t>((before + tokens + after) * dim), untouched);
      for (std::int64_t i = 0; i < tokens; ++i) {
        const std::vector<bf16> state = hidden_state("b", layer, 12 + i, dim);
        x.insert(x.end(), state.begin(), state.end());
      }
      const std::array<std::int64_t, 2> shape{tokens, dim};
      model.forward(layer, batch, View<const bf16, 2>(x.data(), shape),
                    View<bf16, 2>(out.data() + before * dim, shape));
      EXPECT_EQ(std::count(out.begin(), out.begin() + before * dim, untouched), before * dim) << "layer " << layer;
      EXPECT_EQ(std::count(out.end() - after * dim, out.end(), untouched), after * dim) << "layer " << layer;
    }
    batch.commit();
    EXPECT_TRUE(state_bytes(stack.cache(), stack.id("a")) == a);
    EXPECT_TRUE(state_bytes(stack.cache(), stack.id("c")) == c);
    EXPECT_TRUE(state_bytes(stack.cache(), stack.id("b")) == run_alone(model, options(), "b", {15}).state);
  }
}

TEST(Fault52, NoLengthIsSpecial) {
  const Model model(Checkpoint::synthetic(one_layer(4)));
  for (std::int64_t tokens = 40; tokens < 48; ++tokens) {
    const std::vector<std::int64_t> steps(static_cast<std::size_t>(tokens), 1);
    EXPECT_EQ(difference(run_alone(model, options(), "a", {tokens}), run_alone(model, options(), "a", steps)), "")
        << tokens << " tokens";
  }
}

TEST(Fault75, StateOutsidePagesIsConstantAndOnlyTopkRowsAreAttendedTo) {
  const V41Config config = std::get<V41Config>(small_config("tiny"));
  const Model model(Checkpoint::synthetic(config));
  const std::int64_t fixed = cache_cost(config, model.layers()).bytes_fixed;
  Stack stack(model, options());
  stack.add("a");
  for (const std::int64_t tokens : {1, 15, 484}) {
    stack.feed({{"a", tokens}});
    std::int64_t bytes = 0;
    for (const Ring& ring : sequence(stack, "a").rings) bytes += ring.slots() * ring.row_bytes();
    EXPECT_LE(bytes, fixed);
    if (tokens >= config.window_size) {
      EXPECT_EQ(bytes, fixed);
    }
  }
  for (const auto& [layer, selected] : stack.outcome("a").selected) {
    for (const auto& [position, chosen] : selected) {
      const std::int64_t visible = (position + 1) / config.ratio(layer);
      EXPECT_EQ(static_cast<std::int64_t>(chosen.size()), std::min<std::int64_t>(visible, config.index_topk));
    }
  }
}

}  // namespace
}  // namespace skim::test

// Claims: a hidden state that holds a NaN or an infinity gives a row of NaN in every model, layer and kernel set, and
// changes nothing before it nor in other sequences.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention/stack.hpp"
#include "formats/bf16.hpp"

namespace skim::test {
namespace {

constexpr std::int64_t kTokens = 12, kPoisoned = 7, kOthers = 3;

/// Rows that come out of every layer for `kTokens` tokens of one sequence and then kOthers of another, in one batch or
/// token by token. change(token, x): what is done to the hidden state of a token of the first.
using Rows = std::map<int, std::vector<std::vector<bf16>>>;

template <class Change>
Rows run(const Model& model, bool token_by_token, Change change) {
  KvCache cache(model, {.max_tokens = 64, .page_rows = 4, .threads = 1});
  const SequenceId first = cache.add(), second = cache.add();
  const std::int64_t dim = hidden_dim(model.config());
  Rows rows;
  const auto feed = [&](Batch batch, const std::vector<std::pair<const char*, std::int64_t>>& tokens) {
    for (const int layer : model.layers()) {
      std::vector<bf16> x, out(tokens.size() * static_cast<std::size_t>(dim));
      for (const auto& [name, position] : tokens) {
        std::vector<bf16> state = hidden_state(name, layer, position, dim);
        if (name[0] == 'a') change(position, state);
        x.insert(x.end(), state.begin(), state.end());
      }
      const std::array shape{std::ssize(tokens), dim};
      model.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape));
      for (auto row = out.begin(); row != out.end(); row += dim) rows[layer].emplace_back(row, row + dim);
    }
    batch.commit();
  };
  std::vector<std::pair<const char*, std::int64_t>> tokens;
  for (std::int64_t i = 0; i < kTokens; ++i) tokens.emplace_back("a", i);
  if (token_by_token) {
    for (const auto& token : tokens) feed(cache.begin({{first, 1}}), {token});
    tokens.clear();
  }
  const std::int64_t more = std::ssize(tokens);
  for (std::int64_t i = 0; i < kOthers; ++i) tokens.emplace_back("b", i);
  feed(more > 0 ? cache.begin({{first, more}, {second, kOthers}}) : cache.begin({{second, kOthers}}), tokens);
  return rows;
}

bool all_nan(const std::vector<bf16>& row) {
  return std::all_of(row.begin(), row.end(), [](bf16 value) { return std::isnan(to_float(value)); });
}
bool all_finite(const std::vector<bf16>& row) {
  return std::all_of(row.begin(), row.end(), [](bf16 value) { return std::isfinite(to_float(value)); });
}

class Fault113 : public testing::TestWithParam<SetAndConfig> {};
INSTANTIATE_TEST_SUITE_P(, Fault113,
                         testing::Combine(testing::ValuesIn(available_sets()), testing::ValuesIn(small_config_names())),
                         [](const auto& suite) { return joined(suite.param); });

// FAULTS 113: V3.2 gave zeros.
TEST_P(Fault113, ARowThatIsNotFiniteGivesNanAndLeavesItsNeighboursAlone) {
  const Model model = small_model(GetParam());
  const auto* v41 = std::get_if<V41Config>(&model.config());
  const auto* v4 = std::get_if<V4Config>(&model.config());
  const int window = v41 != nullptr ? v41->window_size : v4 != nullptr ? v4->window_size : 0;
  for (const bool token_by_token : {false, true}) {
    const Rows clean = run(model, token_by_token, [](std::int64_t, auto&) {});
    for (const std::uint16_t poison : {0x7FC0, 0xFFFF, 0x7F81, 0x7F80, 0xFF80}) {
      if (is_slow(GetParam()) && poison != 0x7FC0 && poison != 0xFF80) continue;
      const Rows rows = run(model, token_by_token, [&](std::int64_t token, std::vector<bf16>& x) {
        if (token == kPoisoned) x[x.size() / 3] = {poison};
      });
      for (const auto& [layer, got] : rows) {
        SCOPED_TRACE(testing::Message() << "layer " << layer << ", " << std::hex << poison);
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (i == kPoisoned) {
            EXPECT_TRUE(all_nan(got[i]));
          } else if (i < kPoisoned || i >= kTokens) {
            EXPECT_EQ(got[i], clean.at(layer)[i]) << "row " << i;
          } else if (window == 0) {
            EXPECT_TRUE(all_finite(got[i])) << "row " << i << ": its key scores NaN, so nobody chooses it";
          } else if (static_cast<int>(i) < kPoisoned + window) {
            EXPECT_TRUE(all_nan(got[i])) << "its window holds the row";
          }
        }
      }
    }
  }
}

TEST_P(Fault113, AWholeRowOfNanToo) {
  const Model model = small_model(GetParam());
  const Rows rows = run(model, false, [](std::int64_t token, std::vector<bf16>& x) {
    if (token == 0 || token == kPoisoned) std::fill(x.begin(), x.end(), bf16{0x7FFF});
  });
  for (const auto& [layer, got] : rows) {
    EXPECT_TRUE(all_nan(got[0])) << layer;
    EXPECT_TRUE(all_nan(got[kPoisoned])) << layer;
  }
}

}  // namespace
}  // namespace skim::test

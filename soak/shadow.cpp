#include "soak/shadow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

namespace skim::cli {
namespace {

constexpr std::int64_t kVocabulary = 1000;

/// Scrambles 64 bits (splitmix64).
std::uint64_t mixed(std::uint64_t bits) {
  bits += 0x9E3779B97F4A7C15;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

/// Uniform with variance 1.
void fill_hidden_state(Token token, int layer, std::int64_t position, std::span<bf16> state) {
  std::uint64_t stream = mixed(static_cast<std::uint64_t>(token));
  stream = mixed(stream ^ static_cast<std::uint64_t>(layer));
  stream = mixed(stream ^ static_cast<std::uint64_t>(position));
  for (bf16& element : state) {
    stream = mixed(stream);
    const float value = (static_cast<float>(stream >> 40) * 0x1p-23F - 1) * 1.7320508F;
    element.bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
}

std::vector<bf16> hidden_states(std::span<const Portion> portions, int layer, std::int64_t dim) {
  std::vector<bf16> states;
  for (const Portion& portion : portions) {
    for (std::int64_t i = 0; i < portion.count(); ++i) {
      states.resize(states.size() + static_cast<std::size_t>(dim));
      const std::span<bf16> state = std::span(states).last(static_cast<std::size_t>(dim));
      fill_hidden_state(portion.tokens[static_cast<std::size_t>(i)], layer, portion.start + i, state);
    }
  }
  return states;
}

}  // namespace

void History::append(std::span<const Token> new_tokens, std::span<const TokenOutputs> new_outputs) {
  tokens.insert(tokens.end(), new_tokens.begin(), new_tokens.end());
  outputs.insert(outputs.end(), new_outputs.begin(), new_outputs.end());
}

void History::truncate(std::int64_t length) {
  tokens.resize(static_cast<std::size_t>(length));
  outputs.resize(static_cast<std::size_t>(length));
}

std::string difference(const History& found, const History& expected, std::span<const int> layers) {
  if (found.tokens != expected.tokens) return "the tokens themselves differ";
  if (found.outputs.size() != expected.outputs.size()) {
    return fmt::format("outputs of {} tokens, expected {}", found.outputs.size(), expected.outputs.size());
  }
  for (std::size_t token = 0; token < found.outputs.size(); ++token) {
    const TokenOutputs &mine = found.outputs[token], &other = expected.outputs[token];
    if (mine.size() != other.size()) {
      return fmt::format("position {}: {} outputs, expected {}", token, mine.size(), other.size());
    }
    const auto [a, b] = std::mismatch(mine.begin(), mine.end(), other.begin());
    if (a == mine.end()) continue;
    const auto element = static_cast<std::size_t>(a - mine.begin()), dim = mine.size() / layers.size();
    return fmt::format("position {} layer {}: element {} is {:#06x}, computed again {:#06x}", token,
                       layers[element / dim], element % dim, a->bits, b->bits);
  }
  return "";
}

std::vector<BatchEntry> entries_of(std::span<const Portion> portions) {
  std::vector<BatchEntry> entries;
  for (const Portion& portion : portions) entries.push_back({portion.sequence, portion.count()});
  return entries;
}

std::vector<Token> random_tokens(Random& random, std::int64_t count) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  for (Token& token : tokens) token = static_cast<Token>(random.between(0, kVocabulary - 1));
  return tokens;
}

std::vector<std::vector<TokenOutputs>> forward(const Model& model, Batch& batch, std::span<const Portion> portions,
                                               std::size_t layer_count) {
  std::vector<std::vector<TokenOutputs>> outputs;
  for (const Portion& portion : portions) outputs.emplace_back(portion.tokens.size());
  const std::array shape{batch.tokens(), hidden_dim(model.config())};
  for (const int layer : std::span(model.layers()).first(layer_count)) {
    const std::vector<bf16> x = hidden_states(portions, layer, shape[1]);
    std::vector<bf16> out(x.size());
    model.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape));
    auto next = out.begin();
    for (std::vector<TokenOutputs>& portion : outputs) {
      for (TokenOutputs& token : portion) {
        token.insert(token.end(), next, next + shape[1]);
        next += shape[1];
      }
    }
  }
  return outputs;
}

void Replay::feed(std::span<const Token> tokens) {
  const std::array portions{Portion{id_, history_.length(), {tokens.begin(), tokens.end()}}};
  Batch batch = cache_.begin(entries_of(portions));
  const auto outputs = forward(model_, batch, portions, model_.layers().size());
  batch.commit();
  history_.append(tokens, outputs.front());
}

void Replay::feed(std::span<const Token> tokens, Random& random) {
  while (!tokens.empty()) {
    const std::size_t piece = 1 + random.index(tokens.size());
    feed(tokens.first(piece));
    tokens = tokens.subspan(piece);
  }
}

}  // namespace skim::cli

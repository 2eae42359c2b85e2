#include "mutate.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string_view>

namespace fuzz {
namespace {

using Random = std::mt19937_64;

constexpr std::array<unsigned char, 12> kBytes = {0x00, 0x01, 0x7F, 0x80, 0xFF, '"', '\\', '{', '}', '[', ',', '0'};
constexpr std::array<std::string_view, 16> kNumbers = {"0",
                                                       "-1",
                                                       "1",
                                                       "2",
                                                       "-0",
                                                       "0.5",
                                                       "1e3",
                                                       "1e-400",
                                                       "2147483647",
                                                       "2147483648",
                                                       "-2147483649",
                                                       "9223372036854775807",
                                                       "9223372036854775808",
                                                       "18446744073709551616",
                                                       "1e308",
                                                       "1e999"};
constexpr std::array<std::string_view, 12> kTokens = {"null",        "true",     "{}",      "[]", "\"\"", "\"\\u0000\"",
                                                      "\"\\ud800\"", "[[[[[[[[", "{\"a\":", "-",  "NaN",  ",,"};

std::size_t below(Random& random, std::size_t bound) { return bound == 0 ? 0 : random() % bound; }

template <class List>
auto pick(Random& random, const List& list) {
  return list[below(random, list.size())];
}

struct Range {
  std::size_t first = 0, size = 0;
};

/// Some range of the text, mostly short.
Range any_range(const std::string& text, Random& random) {
  const std::size_t first = below(random, text.size());
  const std::size_t most = random() % 4 == 0 ? text.size() : 32;
  return {first, std::min(text.size() - first, 1 + below(random, most))};
}

/// JSON tokens: strings, words and numbers, single punctuation marks. Other bytes lie between them.
std::vector<Range> tokens_of(const std::string& text) {
  const auto word = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '-' || text[i] == '.');
  };
  std::vector<Range> tokens;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (text[i] == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (word(i)) {
      while (word(end)) ++end;
    } else if (std::string_view("{}[],:").find(text[i]) == std::string_view::npos) {
      ++i;
      continue;
    }
    tokens.push_back({i, end - i});
    i = end;
  }
  return tokens;
}

bool is_number(const std::string& text, Range token) {
  const unsigned char first = static_cast<unsigned char>(text[token.first]);
  return std::isdigit(first) || (first == '-' && token.size > 1);
}

void flip_bit(std::string& text, Random& random) {
  if (!text.empty()) text[below(random, text.size())] ^= static_cast<char>(1u << random() % 8);
}

void set_byte(std::string& text, Random& random) {
  if (!text.empty()) text[below(random, text.size())] = static_cast<char>(pick(random, kBytes));
}

void truncate(std::string& text, Random& random) { text.resize(below(random, text.size() + 1)); }

void erase(std::string& text, Random& random) {
  const Range range = any_range(text, random);
  text.erase(range.first, range.size);
}

void insert(std::string& text, Random& random) {
  const std::size_t where = below(random, text.size() + 1);
  if (random() % 2 == 0) {
    text.insert(where, pick(random, kTokens));
  } else {
    text.insert(where, 1 + below(random, 16), static_cast<char>(pick(random, kBytes)));
  }
}

void duplicate(std::string& text, Random& random) {
  const Range range = any_range(text, random);
  const std::string copy = text.substr(range.first, range.size);
  const std::size_t times = random() % 8 == 0 ? 64 : 1;
  const std::size_t where = random() % 2 == 0 ? range.first : below(random, text.size() + 1);
  std::string copies;
  for (std::size_t i = 0; i < times && copies.size() < kMaxInput; ++i) copies += copy;
  text.insert(where, copies);
}

/// Some number becomes another: a notable one, a long one, one near it, or another number of the text.
void replace_number(std::string& text, Random& random) {
  std::vector<Range> numbers;
  for (const Range token : tokens_of(text)) {
    if (is_number(text, token)) numbers.push_back(token);
  }
  if (numbers.empty()) return;
  const Range old = pick(random, numbers);
  std::string replacement(pick(random, kNumbers));
  const std::size_t way = random() % 8;
  if (way == 0) replacement = std::string(1 + below(random, 400), static_cast<char>('0' + random() % 10));
  if (way >= 4 && way < 6) {
    const Range other = pick(random, numbers);
    replacement = text.substr(other.first, other.size);
  }
  if (way >= 6 && old.size < 18 && text.find_first_not_of("0123456789", old.first) >= old.first + old.size) {
    const long long value = std::stoll(text.substr(old.first, old.size));
    replacement = std::to_string(value + static_cast<long long>(random() % 17) - 8);
  }
  text.replace(old.first, old.size, replacement);
}

void swap_tokens(std::string& text, Random& random) {
  const std::vector<Range> tokens = tokens_of(text);
  if (tokens.size() < 2) return;
  Range a = pick(random, tokens), b = pick(random, tokens);
  if (a.first == b.first) return;
  if (a.first > b.first) std::swap(a, b);
  const std::string first = text.substr(a.first, a.size), second = text.substr(b.first, b.size);
  text.replace(b.first, b.size, first);
  text.replace(a.first, a.size, second);
}

void replace_token(std::string& text, Random& random) {
  const std::vector<Range> tokens = tokens_of(text);
  if (tokens.empty()) return;
  const Range old = pick(random, tokens), other = pick(random, tokens);
  const std::string replacement =
      random() % 2 == 0 ? std::string(pick(random, kTokens)) : text.substr(other.first, other.size);
  text.replace(old.first, old.size, replacement);
}

/// The start of one and the end of another entry.
void splice(std::string& text, const std::string& other, Random& random) {
  const std::size_t keep = below(random, text.size() + 1);
  const std::size_t from = random() % 2 == 0 ? std::min(keep, other.size()) : below(random, other.size() + 1);
  text = text.substr(0, keep) + other.substr(from);
}

constexpr std::array kMutations = {flip_bit,  set_byte,       truncate,       erase,       insert,
                                   duplicate, replace_number, replace_number, swap_tokens, replace_token};

}  // namespace

std::string mutated(const std::vector<std::string>& corpus, Random& random) {
  std::string text = pick(random, corpus);
  // Mostly few changes: after many, an early check refuses everything.
  const std::size_t changes = std::size_t{1} << random() % 4;
  for (std::size_t i = 0; i < changes; ++i) {
    if (random() % 16 == 0) {
      splice(text, pick(random, corpus), random);
    } else {
      pick(random, kMutations)(text, random);
    }
    if (text.size() > kMaxInput) text.resize(kMaxInput);
  }
  return text;
}

}  // namespace fuzz

// Random changes to an input that may hold bytes, text, numbers written as text, and JSON.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace fuzz {

/// Longest input that a mutation makes (bytes).
inline constexpr std::size_t kMaxInput = 1 << 16;

/// A corpus entry changed one to eight times.
std::string mutated(const std::vector<std::string>& corpus, std::mt19937_64& random);

}  // namespace fuzz

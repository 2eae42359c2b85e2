// For targets that read safetensors: a header length that fits the (mutated) header.
#pragma once

#include <string>

namespace fuzz {

/// Sets the length in front to the end of the JSON object that starts behind it, if there is one.
inline void repair_safetensors(std::string& input) {
  constexpr std::size_t kStart = 8;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = kStart; i < input.size(); ++i) {
    if (quoted) {
      if (input[i] == '\\')
        ++i;
      else if (input[i] == '"')
        quoted = false;
      continue;
    }
    if (input[i] == '"') quoted = true;
    if (input[i] == '{') ++depth;
    if (input[i] != '}' || --depth > 0) continue;
    std::size_t length = i + 1 - kStart;
    while (kStart + length < input.size() && input[kStart + length] == ' ') ++length;
    for (std::size_t byte = 0; byte < kStart; ++byte) input[byte] = static_cast<char>(length >> (8 * byte) & 0xFF);
    return;
  }
}

}  // namespace fuzz

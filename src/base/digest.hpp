// A 128-bit checksum (XXH3) of bytes that come in pieces. Finds damage and tells models apart; no defense against
// intent.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace skim {

class Digest {
 public:
  Digest();
  void add(std::span<const std::byte> bytes);
  /// With its length, so that "ab", "c" is not "a", "bc".
  void add_text(std::string_view text);
  /// 32 hexadecimal digits of everything so far.
  std::string hex() const;

 private:
  struct State;
  struct Free {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, Free> state_;
};

}  // namespace skim

#include "base/digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstdint>
#include <new>

namespace skim {

struct Digest::State {
  XXH3_state_t* xxh3;
};

void Digest::Free::operator()(State* state) const {
  XXH3_freeState(state->xxh3);
  delete state;
}

Digest::Digest() : state_(new State{XXH3_createState()}) {
  if (state_->xxh3 == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_->xxh3);
}

void Digest::add(std::span<const std::byte> bytes) { XXH3_128bits_update(state_->xxh3, bytes.data(), bytes.size()); }

void Digest::add_text(std::string_view text) {
  const std::uint64_t size = text.size();
  add(std::as_bytes(std::span(&size, 1)));
  add(std::as_bytes(std::span(text)));
}

std::string Digest::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh3);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace skim

// Sequences in files: safetensors, with a fingerprint of the model and a checksum of everything.
#pragma once

#include <cstdint>
#include <filesystem>

#include "cache/sequence.hpp"
#include "skim/safetensors.hpp"

namespace skim {

/// What a sequence of a cache must fit: its layout, limits and rotation.
struct SequenceFormat {
  const CacheLayout& layout;
  RingLimits limits;
  std::int64_t page_rows = 1;

  bool yarn() const { return layout.yarn(limits.max_tokens); }
};

/// Throws Error{io}.
void save_sequence(const Sequence& sequence, const SequenceFormat& format, const std::filesystem::path& path);

/// A sequence whose pages are parts of the mapped file. Throws Error{io}, Error{bad_file} naming what is damaged or
/// does not fit the model, Error{limit_exceeded} if it is longer than the cache allows.
Sequence load_sequence(const SequenceFormat& format, Memory& memory, const std::filesystem::path& path);

}  // namespace skim

// Long contexts in seconds.
#pragma once

#include <cstdint>

#include "bench/random.hpp"
#include "skim/cache.hpp"

namespace skim::bench {

/// A new sequence of `tokens` tokens that nobody fed: its packed rows, index keys, window and unfinished groups are
/// random. It can be continued like any other. Throws Error{limit_exceeded}, Error{out_of_memory}; then there is no
/// such sequence.
SequenceId plant(KvCache& cache, std::int64_t tokens, RandomWords& random);

}  // namespace skim::bench

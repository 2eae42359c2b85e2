// What this machine can do at best, measured in the same run as everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/context.hpp"
#include "kernels/memory.hpp"
#include "bench/probes/probe_list.hpp"

namespace skim::bench {

/// What an operation has to do at least.
struct Work {
  double products = 0;          ///< Operations in dot products of bf16 and fp8 values; a product and its sum are two.
  double integer_products = 0;  ///< The same of fp4 codes, which are small integers.
  double bytes = 0;             ///< Packed operands read once, results written once.

  double operations() const { return products + integer_products; }
};

/// Of all threads together, per second.
struct Rates {
  double products = 0, integer_products = 0, bytes = 0;

  double arithmetic_seconds(const Work& work) const;
  double memory_seconds(const Work& work) const { return work.bytes / bytes; }
  /// The longer of both.
  double seconds(const Work& work) const;
};

struct Ceiling {
  std::string name;              ///< Of the probe, or "read".
  std::vector<double> one, all;  ///< Operations (bytes) per second with one thread, and with all.
};

/// Measures what the instruction sets of this processor reach, whichever kernel set runs.
class Ceilings {
 public:
  /// `context` has the threads that operations run on. Measures everything three times.
  explicit Ceilings(Context& context);

  /// Measures again what binds operations.
  Rates sample();
  /// Bytes per second of reading `data` as it lies in the caches now, with all threads.
  double read_rate(std::span<const std::byte> data);

  const std::vector<Ceiling>& all() const { return ceilings_; }
  int threads() const { return context_.threads(); }
  /// The fastest probe of floating-point products; of integers, if that is faster.
  const std::string& name_of_products() const { return ceilings_[products_].name; }
  const std::string& name_of_integer_products() const { return ceilings_[integer_products_].name; }

 private:
  /// Once more, with all threads or one; the result is kept too.
  double measure(std::size_t index, bool all);
  double arithmetic_rate(const Context& context, ArithmeticLoop loop) const;
  double memory_rate(const Context& context);
  /// The fastest of the probes that `fits`.
  std::size_t fastest(bool with_integers) const;

  Context& context_;
  Context alone_;
  std::vector<Probe> probes_;
  std::vector<Ceiling> ceilings_;  ///< One per probe, then reading memory.
  ReadLoop read_;
  Buffer memory_;               ///< Far larger than the caches.
  std::int64_t next_part_ = 0;  ///< Of memory_, in turn.
  std::size_t products_ = 0, integer_products_ = 0;
};

/// Of the last-level cache; a guess if the system does not say.
std::int64_t cache_bytes();

}  // namespace skim::bench

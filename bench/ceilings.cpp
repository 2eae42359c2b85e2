#include "bench/ceilings.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

#include "bench/sample.hpp"
#include "kernels/parallel.hpp"

namespace skim::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kShares = 8;  // per thread, so that a thread that is interrupted leaves work to the others
constexpr std::int64_t kPartBytes = 48 << 20;  // of memory read for one measurement
constexpr double kProbeSeconds = 4e-3;

std::int64_t memory_bytes() {
  const std::int64_t pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::int64_t wanted = std::max<std::int64_t>(4 * cache_bytes(), 256 << 20);
  return std::max(std::min(wanted, pages * page / 4) / kPartBytes, std::int64_t{1}) * kPartBytes;
}

volatile std::uint64_t sink;  // so that what is read counts as used

double read_seconds(const Context& context, ReadLoop read, std::span<const std::byte> data) {
  const std::int64_t shares = kShares * context.threads();
  const std::int64_t share = static_cast<std::int64_t>(data.size()) / shares / 512 * 512;
  const auto start = Clock::now();
  parallel_for(context, shares, share, [&](std::int64_t i, int) {
    const std::int64_t first = i * share;
    // The last share takes what is left.
    sink = read(data.data() + first, i + 1 < shares ? share : static_cast<std::int64_t>(data.size()) - first);
  });
  return seconds_since(start);
}

}  // namespace

std::int64_t cache_bytes() {
  // sysconf adds up the caches of other cores on some processors.
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::int64_t kibibytes = 0;
  return file >> kibibytes && kibibytes > 0 ? kibibytes << 10 : 32 << 20;
}

double Rates::arithmetic_seconds(const Work& work) const {
  return work.products / products + work.integer_products / integer_products;
}

double Rates::seconds(const Work& work) const { return std::max(arithmetic_seconds(work), memory_seconds(work)); }

Ceilings::Ceilings(Context& context)
    : context_(context),
      alone_(1),
      probes_(available_probes()),
      read_(available_read()),
      memory_(host_memory(), memory_bytes()) {
  std::memset(memory_.data(), 1, static_cast<std::size_t>(memory_.bytes()));
  for (const Probe& probe : probes_) ceilings_.push_back({std::string(probe.name), {}, {}});
  ceilings_.push_back({"read", {}, {}});
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (std::size_t i = 0; i < ceilings_.size(); ++i) {
      measure(i, false);
      measure(i, true);
    }
  }
  products_ = fastest(false);
  integer_products_ = fastest(true);
}

Rates Ceilings::sample() {
  Rates rates;
  rates.products = measure(products_, true);
  rates.integer_products = integer_products_ == products_ ? rates.products : measure(integer_products_, true);
  rates.bytes = measure(probes_.size(), true);
  return rates;
}

double Ceilings::read_rate(std::span<const std::byte> data) {
  std::int64_t times = 0;
  double seconds = 0;
  do {
    seconds += read_seconds(context_, read_, data);
    ++times;
  } while (seconds < kProbeSeconds / 4);
  return static_cast<double>(times) * static_cast<double>(data.size()) / seconds;
}

double Ceilings::measure(std::size_t index, bool all) {
  const Context& context = all ? context_ : alone_;
  const double rate = index < probes_.size() ? arithmetic_rate(context, probes_[index].run) : memory_rate(context);
  (all ? ceilings_[index].all : ceilings_[index].one).push_back(rate);
  return rate;
}

double Ceilings::arithmetic_rate(const Context& context, ArithmeticLoop loop) const {
  // The number of rounds follows from a short trial, so that every probe takes about as long.
  constexpr std::int64_t trial = 2000;
  const auto start = Clock::now();
  loop(trial);
  const double each = seconds_since(start) / trial;
  const auto rounds = static_cast<std::int64_t>(kProbeSeconds / kShares / std::max(each, 1e-10)) + 1;
  const std::int64_t shares = kShares * context.threads();
  double operations = 0;
  const auto begin = Clock::now();
  parallel_for(context, shares, kLeastParallelWork, [&](std::int64_t i, int) {
    const double done = loop(rounds);
    if (i == 0) operations = done * static_cast<double>(shares);
  });
  return operations / seconds_since(begin);
}

double Ceilings::memory_rate(const Context& context) {
  const std::span<const std::byte> part(memory_.data() + next_part_ * kPartBytes, static_cast<std::size_t>(kPartBytes));
  next_part_ = (next_part_ + 1) % (memory_.bytes() / kPartBytes);
  return static_cast<double>(kPartBytes) / read_seconds(context, read_, part);
}

std::size_t Ceilings::fastest(bool with_integers) const {
  std::size_t best = 0;
  for (std::size_t i = 0; i < probes_.size(); ++i) {
    if (probes_[i].integers && !with_integers) continue;
    if (median(ceilings_[i].all) > median(ceilings_[best].all)) best = i;
  }
  return best;
}

}  // namespace skim::bench

#include "kernels/context.hpp"

#include <algorithm>

#include "skim/machine.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace skim {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kSmallestBlock = 1 << 20;

}  // namespace

int available_processors() {
#ifdef _OPENMP
  return std::max(1, omp_get_num_procs());
#else
  return 1;
#endif
}

std::int64_t Arena::bytes() const {
  std::int64_t total = 0;
  for (const Buffer& block : blocks_) total += block.bytes();
  return total;
}

std::byte* Arena::take_bytes(std::int64_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].bytes()) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    blocks_.emplace_back(host_memory(), std::max({bytes, kSmallestBlock, this->bytes()}));
    used_ = 0;
  }
  std::byte* taken = blocks_[block_].data() + used_;
  used_ += bytes;
  return taken;
}

void Arena::rewind(std::size_t block, std::int64_t used) {
  block_ = block;
  used_ = used;
}

Arena::Scope::~Scope() { arena_.rewind(block_, used_); }

Context::Context(int threads) : threads_(threads > 0 ? threads : available_processors()) {
  thread_scratch_.resize(static_cast<std::size_t>(threads_));
}

void Context::reserve_thread_scratch(std::int64_t bytes) {
  for (Buffer& scratch : thread_scratch_) {
    if (scratch.bytes() < bytes) {
      scratch.reset();
      scratch = Buffer(host_memory(), bytes);
    }
  }
}

std::int64_t Context::scratch_bytes() const {
  std::int64_t total = arena_.bytes();
  for (const Buffer& scratch : thread_scratch_) total += scratch.bytes();
  return total;
}

}  // namespace skim

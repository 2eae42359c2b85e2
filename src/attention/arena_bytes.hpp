// What the steps of a layer take from the arena per token, added up in the order of the steps.
#pragma once

#include <algorithm>
#include <cstdint>

namespace skim {

/// The most that is held at a time. Every function says what a step of the same name takes.
class ArenaBytes {
 public:
  /// Of bf16.
  void rows(std::int64_t width) { take(2 * width); }
  void floats(std::int64_t width) { take(4 * width); }
  void take(std::int64_t bytes) {
    held_ += bytes;
    most_ = std::max(most_, held_);
  }
  /// LayerCall::project
  void project(std::int64_t in, std::int64_t out) {
    rows(out);
    linear(in);
  }
  /// The same with a norm behind it.
  void project_normed(std::int64_t in, std::int64_t out) {
    project(in, out);
    rows(out);
  }
  /// A linear layer into memory that was taken before. Until it is done kernels hold their input as float, each group
  /// in stretches of 256 (sets may take less).
  void linear(std::int64_t in, std::int64_t groups = 1) {
    most_ = std::max(most_, held_ + 4 * groups * ((in + 255) / 256 * 256));
  }

  /// What is taken in between is given back.
  std::int64_t begin() const { return held_; }
  void end(std::int64_t begun) { held_ = begun; }

  std::int64_t most() const { return most_; }

 private:
  std::int64_t held_ = 0, most_ = 0;
};

}  // namespace skim

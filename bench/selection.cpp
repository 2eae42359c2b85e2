// select_topk and select_blocks: from the scores of one query, which lie in the caches as far as they fit.
#include <fmt/format.h>

#include "bench/operations.hpp"
#include "bench/random.hpp"
#include "bench/shapes.hpp"

namespace skim::bench {
namespace {

class SelectionSubject final : public Subject {
 public:
  /// Positions, or blocks if `by_blocks`.
  SelectionSubject(const KernelSet& set, Context& context, const Shapes& shapes, bool by_blocks)
      : kernels_(set.kernels()),
        context_(context),
        by_blocks_(by_blocks),
        block_size_(shapes.candidate_block_size),
        chosen_(static_cast<std::size_t>(by_blocks ? shapes.candidate_topk_blocks : shapes.topk)) {
    RandomWords random(3);
    scores_ = random_floats(random, shapes.context);
  }

  void run() override {
    const int k = static_cast<int>(chosen_.size());
    if (by_blocks_) {
      const BlockQuery query{scores_, block_size_, k, chosen_.data(), &count_};
      kernels_.select_blocks(context_, {&query, 1});
    } else {
      const TopkQuery query{
          scores_, {.visible = static_cast<std::int64_t>(scores_.size()), .blocks = {}}, k, chosen_.data(), &count_};
      kernels_.select_topk(context_, {&query, 1});
    }
  }
  std::span<const std::byte> input() const override { return std::as_bytes(std::span(scores_)); }

 private:
  const Kernels& kernels_;
  Context& context_;
  bool by_blocks_;
  int block_size_;
  std::vector<float> scores_;
  std::vector<std::int32_t> chosen_;
  std::int32_t count_ = 0;
};

}  // namespace

std::vector<Operation> selection_operations(const Config& config) {
  const Shapes shapes = shapes_of(config);
  std::vector<Operation> list;
  const auto add = [&](const char* name, std::string text, int chosen, bool by_blocks) {
    // Bytes: scores once, what is chosen once.
    list.push_back({name,
                    std::move(text),
                    {.bytes = 4.0 * static_cast<double>(shapes.context) + 4.0 * chosen},
                    [shapes, by_blocks](const KernelSet& set, Context& context) {
                      return std::make_unique<SelectionSubject>(set, context, shapes, by_blocks);
                    }});
  };
  add("select_topk", fmt::format("{} of {}", shapes.topk, shapes.context), shapes.topk, false);
  if (shapes.candidate_topk_blocks > 0) {
    add("select_blocks",
        fmt::format("{} of {}", shapes.candidate_topk_blocks, shapes.context / shapes.candidate_block_size),
        shapes.candidate_topk_blocks, true);
  }
  return list;
}

}  // namespace skim::bench

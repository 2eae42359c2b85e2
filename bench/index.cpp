// index_score: queries against a context of packed keys.
#include <fmt/format.h>

#include <algorithm>

#include "bench/operations.hpp"
#include "bench/random.hpp"
#include "bench/shapes.hpp"
#include "formats/bf16.hpp"

namespace skim::bench {
namespace {

struct IndexCase {
  std::int64_t queries = 1, keys = 0;
  bool in_blocks = false;
};

class IndexSubject final : public Subject {
 public:
  IndexSubject(const KernelSet& set, Context& context, const Shapes& shapes, const IndexCase& how)
      : kernels_(set.kernels()), context_(context), shape_{shapes.index_heads, shapes.key_row} {
    RandomWords random(2);
    const std::int64_t copies = copies_beyond_cache(static_cast<double>(how.keys * shapes.key_row.bytes()));
    for (std::int64_t i = 0; i < copies; ++i) keys_.emplace_back(random, shapes.key_row, how.keys);
    const std::int64_t rows = how.queries * shapes.index_heads;
    queries_.resize(static_cast<std::size_t>(rows * shapes.key_row.bytes()));
    random_rows(random, shapes.key_row, queries_.data(), rows);
    for (const bf16 weight : random_values(random, rows)) weights_.push_back(to_float(weight));
    for (std::int64_t i = 0; i < how.queries; ++i) add_query(random, shapes, how, i);
  }

  void run() override {
    for (IndexQuery& query : list_) query.keys = keys_[next_].rows();
    next_ = (next_ + 1) % keys_.size();
    kernels_.index_score(context_, shape_, list_);
  }

 private:
  void add_query(RandomWords& random, const Shapes& shapes, const IndexCase& how, std::int64_t i) {
    IndexRange range{.visible = how.keys, .blocks = {}};
    if (how.in_blocks) {
      blocks_.push_back(random_positions(random, how.keys / shapes.candidate_block_size, shapes.candidate_topk_blocks));
      range = {how.keys, true, blocks_.back(), shapes.candidate_block_size};
    }
    scores_.emplace_back(static_cast<std::size_t>(range.slots()));
    list_.push_back({queries_.data() + i * shapes.index_heads * shapes.key_row.bytes(),
                     weights_.data() + i * shapes.index_heads, keys_[0].rows(), range, scores_.back().data()});
  }

  const Kernels& kernels_;
  Context& context_;
  IndexShape shape_;
  std::vector<RandomPages> keys_;
  std::size_t next_ = 0;
  std::vector<std::byte> queries_;
  std::vector<float> weights_;
  std::vector<std::vector<std::int32_t>> blocks_;
  std::vector<std::vector<float>> scores_;
  std::vector<IndexQuery> list_;
};

/// Products: queries * scored keys * heads * width. Bytes: scored keys once (blocks of different queries count each),
/// packed queries and weights once, one float32 per score.
Work index_work(const Shapes& shapes, const IndexCase& how) {
  const auto queries = static_cast<double>(how.queries);
  const double scored = how.in_blocks ? static_cast<double>(shapes.candidate_topk_blocks) * shapes.candidate_block_size
                                      : static_cast<double>(how.keys);
  const double operations = queries * scored * shapes.index_operations();
  const auto row = static_cast<double>(shapes.key_row.bytes());
  Work work{.bytes = scored * row * (how.in_blocks ? queries : 1) + queries * shapes.index_heads * (row + 4) +
                     queries * scored * 4};
  (shapes.has_integer_keys() ? work.integer_products : work.products) = operations;
  return work;
}

std::string index_text(const Shapes& shapes, const IndexCase& how) {
  std::string text = fmt::format("{} x {} keys, {} heads of {} {}", how.queries, how.keys, shapes.index_heads,
                                 shapes.key_row.width, shapes.has_integer_keys() ? "fp4" : "fp8");
  if (how.in_blocks)
    text += fmt::format(", in {} blocks of {}", shapes.candidate_topk_blocks, shapes.candidate_block_size);
  return text;
}

}  // namespace

std::vector<Operation> index_operations(const Config& config) {
  const Shapes shapes = shapes_of(config);
  std::vector<Operation> list;
  for (const bool in_blocks : {false, true}) {
    if (in_blocks && shapes.candidate_topk_blocks == 0) continue;
    for (const std::int64_t keys : {std::int64_t{64} << 10, std::int64_t{512} << 10}) {
      for (const std::int64_t queries : {1, 16}) {
        const IndexCase how{queries, keys, in_blocks};
        list.push_back({"index_score", index_text(shapes, how), index_work(shapes, how),
                        [shapes, how](const KernelSet& set, Context& context) {
                          return std::make_unique<IndexSubject>(set, context, shapes, how);
                        }});
      }
    }
  }
  return list;
}

}  // namespace skim::bench

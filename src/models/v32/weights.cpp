#include "models/v32/weights.hpp"

namespace skim::v32 {
namespace {

/// Rows [first, first + count) of a matrix, transposed.
Matrix transposed_rows(const Matrix& matrix, std::int64_t first, std::int64_t count) {
  Matrix result{matrix.columns, count, std::vector<bf16>(static_cast<std::size_t>(matrix.columns * count))};
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < matrix.columns; ++j) {
      result.values[static_cast<std::size_t>(j * count + i)] = matrix.row(first + i)[j];
    }
  }
  return result;
}

}  // namespace

std::int64_t Weights::bytes() const {
  std::int64_t total = wq_a.bytes() + wq_b.bytes() + wkv_a.bytes() + wo.bytes();
  total += index_wq_b.bytes() + index_wk.bytes() + index_weights.bytes();
  for (const Weight& head : wk_b) total += head.bytes();
  for (const Weight& head : wv_b) total += head.bytes();
  return total;
}

Weights load_weights(const LayerLoader& load, const V32Config& config) {
  Weights weights{
      .wq_a = load.weight("q_a_proj.weight"),
      .q_norm = load.vector("q_a_layernorm.weight"),
      .wq_b = load.weight("q_b_proj.weight"),
      .wkv_a = load.weight("kv_a_proj_with_mqa.weight"),
      .kv_norm = load.vector("kv_a_layernorm.weight"),
      .wk_b = {},
      .wv_b = {},
      .wo = load.weight("o_proj.weight"),
      .index_wq_b = load.weight("indexer.wq_b.weight"),
      .index_wk = load.weight("indexer.wk.weight"),
      .index_k_norm = load.vector("indexer.k_norm.weight"),
      .index_k_bias = load.vector("indexer.k_norm.bias"),
      .index_weights = load.weight("indexer.weights_proj.weight"),
  };
  const Matrix wkv_b = load.matrix("kv_b_proj.weight");
  const std::int64_t nope = config.qk_nope_head_dim, value = config.v_head_dim;
  for (std::int64_t head = 0; head < config.n_heads; ++head) {
    const std::int64_t first = head * (nope + value);
    const Matrix keys = transposed_rows(wkv_b, first, nope);
    weights.wk_b.push_back(load.pack(keys.values.data(), keys.rows, keys.columns));
    weights.wv_b.push_back(load.pack(wkv_b.row(first + nope), value, wkv_b.columns));
  }
  return weights;
}

}  // namespace skim::v32

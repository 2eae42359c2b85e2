// The reference set: scalar loops that keep the published rounding points. It is the oracle and is never optimized.
#pragma once

#include "kernels/kernels.hpp"

namespace skim::reference {

const Kernels& kernels();

Weight pack_weight(Memory&, const WeightSource&);
void linear(Context&, View<const bf16, 2> x, const Weight& weight, View<bf16, 2> y);
void linear_f32(Context&, View<const bf16, 2> x, const Weight& weight, View<float, 2> y);
void rms_norm(Context&, View<const bf16, 2> x, const float* weight, float eps, View<bf16, 2> y);
void layer_norm(Context&, View<const bf16, 2> x, const float* weight, const float* bias, float eps, View<bf16, 2> y);
void norm_heads(Context&, View<bf16, 3> x, float eps);
void rotate(Context&, const Rotation&);
void hadamard(Context&, View<bf16, 2> x);
void pool_groups(Context&, View<const float, 3> kv, View<const float, 3> score, View<bf16, 2> latent);
void pack_rows(Context&, RowLayout layout, View<const bf16, 2> x, PagedRows<std::byte> rows, std::int64_t first);
void index_score(Context&, const IndexShape&, std::span<const IndexQuery>);
void select_topk(Context&, std::span<const TopkQuery>);
void select_blocks(Context&, std::span<const BlockQuery>);
void attend(Context&, const AttendShape&, std::span<const AttendQuery>);

}  // namespace skim::reference

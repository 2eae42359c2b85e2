// What went wrong with sizes in other ports: score matrices without a bound, offsets that do not fit 32 bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "attention/stack.hpp"
#include "base/access.hpp"
#include "cache/batch_impl.hpp"
#include "cache/layout.hpp"
#include "cache/pages.hpp"
#include "kernels/kernels.hpp"
#include "models/family.hpp"

namespace skim::test {
namespace {

/// Tokens fed at once with this much workspace, and what was really held.
struct Measured {
  Outcome outcome;
  std::int64_t workspace = 0;

  Measured(const Model& model, std::int64_t tokens, std::int64_t workspace_bytes) {
    Stack stack(model, {.max_tokens = 1 << 14, .workspace_bytes = workspace_bytes, .threads = 1});
    stack.add("a");
    stack.feed({{"a", tokens}});
    outcome = stack.outcome("a");
    workspace = stack.cache().workspace_bytes();
  }
};

/// Blocks of scratch double, so that up to twice the setting may be held.
constexpr std::int64_t allowed(std::int64_t workspace_bytes) { return 2 * workspace_bytes; }

TEST(Fault73, ScoresStayInsideTheWorkspaceAndTheSelectionIsTheSame) {
  V41Config config = one_layer(1);  // so narrow that scores are what takes space
  config.dim = 64;
  config.head_dim = config.index_head_dim = 32;
  config.n_heads = config.o_groups = config.index_n_heads = 1;
  const Model model(Checkpoint::synthetic(config));
  constexpr std::int64_t kTokens = 4096;  // 33 MB of scores if all were held at once
  const Measured ample(model, kTokens, 256 << 20);
  for (const std::int64_t bytes : {1 << 20, 2 << 20}) {
    const Measured tight(model, kTokens, bytes);
    EXPECT_LE(tight.workspace, allowed(bytes));
    EXPECT_EQ(difference(ample.outcome, tight.outcome), "") << bytes << " bytes";
  }
}

TEST(Fault73, ManyIndexHeadsStayInsideTheWorkspaceToo) {
  V41Config config = one_layer(2);
  config.index_n_heads = 64;
  config.index_head_dim = 128;
  const Model model(Checkpoint::synthetic(config));
  const Measured ample(model, 300, 256 << 20);
  for (const std::int64_t bytes : {1 << 20, 2 << 20, 4 << 20}) {
    const Measured tight(model, 300, bytes);
    EXPECT_LE(tight.workspace, allowed(bytes));
    EXPECT_EQ(difference(ample.outcome, tight.outcome), "") << bytes << " bytes";
  }
}

/// Whether a layer runs a batch of one tile within so many bytes of arena.
bool fits(const Model& model, int layer, std::int64_t tokens, std::int64_t bytes) {
  KvCache cache(model, {.threads = 1});
  const SequenceId sequence = cache.add();
  Batch batch = cache.begin({{sequence, tokens}});
  const std::array shape{tokens, hidden_dim(model.config())};
  std::vector<bf16> x(static_cast<std::size_t>(shape[0] * shape[1])), out(x.size());
  Arena& arena = Access::impl(batch).context->arena();
  for (const int before : model.layers()) {
    if (before == layer) arena = Arena();
    if (before == layer) {
      const Arena::Scope scope(arena);
      arena.take<std::byte>(bytes);
    }
    const std::int64_t held = arena.bytes();
    model.forward(before, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape));
    if (before == layer) return arena.bytes() == held;
  }
  return false;
}

/// What every query's scores take beside the activations of a tile: floats, and lists of what to compute.
std::int64_t score_bytes(const LayerRole& role, std::int64_t tokens) {
  return role.selects() ? tokens * (tokens / role.ratio * 4 + 128) : 0;
}

/// Wide enough that a tile of 256 fills more than the arena's smallest block of a megabyte.
Config wide(Config config) {
  if (auto* v41 = std::get_if<V41Config>(&config)) {
    v41->dim = v41->q_lora_rank = 512;
    v41->n_heads = 16;
    v41->o_lora_rank = 256;
    v41->index_n_heads = 16;
  } else {
    auto& v32 = std::get<V32Config>(config);
    v32.dim = v32.q_lora_rank = 512;
    v32.n_heads = 8;
    v32.qk_nope_head_dim = v32.v_head_dim = 128;
    v32.index_n_heads = 16;
  }
  return config;
}

TEST(Fault73, ActivationsOfATileAreWhatTheLayerCounts) {
  constexpr std::int64_t kTokens = 256;
  for (const char* name : {"v41-tiny", "v32-tiny"}) {
    const Config config = wide(named_config(name));
    const Model model(Checkpoint::synthetic(config));
    for (const int layer : model.layers()) {
      SCOPED_TRACE(testing::Message() << name << " layer " << layer);
      const LayerRole role = layer_role(config, layer);
      const std::int64_t counted = kTokens * family_of(config).arena_bytes(config, role);
      ASSERT_GT(counted / 2, 1 << 20);
      EXPECT_TRUE(fits(model, layer, kTokens, counted + score_bytes(role, kTokens) + 4096));  // tensors are aligned
      EXPECT_FALSE(fits(model, layer, kTokens, counted / 2));
    }
  }
}

/// Never read: only differences of addresses are looked at.
template <class T>
T* address(std::int64_t bytes) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(bytes));  // NOLINT(performance-no-int-to-ptr)
}
std::int64_t distance(const void* from, const void* to) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from));
}

constexpr std::int64_t kBase = std::int64_t{1} << 40;

TEST(Fault74, PagesBeyondTwoGigabytesAreAddressed) {
  std::vector<const std::byte*> pages;
  for (std::int64_t page = 0; page < 2048; ++page) pages.push_back(address<const std::byte>(kBase + (page << 33)));
  const ConstPagedRows rows{pages.data(), 1 << 20, 4096};  // 2^31 rows of 2^12 bytes
  const std::int64_t last = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(distance(pages[2047], rows.row(last)), ((std::int64_t{1} << 20) - 1) * 4096);
  EXPECT_EQ(distance(pages[1024], rows.row(std::int64_t{1} << 30)), 0);
  PageTable table(host_memory(), 4096, 1 << 20);
  EXPECT_EQ(table.page_bytes(), std::int64_t{1} << 32);
  EXPECT_EQ(table.pages_for(last + 2), 2049);
}

TEST(Fault74, WindowRowsBeyondTwoGigabytesAreAddressed) {
  const WindowRows rows{address<const std::byte>(kBase), std::int64_t{1} << 22, address<const std::byte>(2 * kBase),
                        std::int64_t{1} << 33, 528};
  const std::int64_t last = (std::int64_t{1} << 33) - 1;
  EXPECT_EQ(distance(rows.ring, rows.row(last)), ((std::int64_t{1} << 22) - 1) * 528);
  EXPECT_EQ(distance(rows.staged, rows.row((std::int64_t{1} << 33) + (std::int64_t{1} << 23))),
            (std::int64_t{1} << 23) * 528);
}

TEST(Fault74, ViewsOfMoreThanTwoToThe31ElementsAreAddressed) {
  const View<const bf16, 2> view(address<const bf16>(kBase), {std::int64_t{1} << 20, 32768});
  const std::int64_t last = (std::int64_t{1} << 20) - 1;
  EXPECT_EQ(distance(view.data, view.row(last)), last * 32768 * 2);
  EXPECT_EQ(distance(view.data, &view(last, 32767)), (last * 32768 + 32767) * 2);
  EXPECT_EQ(distance(view.data, view.rows(last, 1).data), last * 32768 * 2);
  EXPECT_EQ(distance(view.data, &view(static_cast<int>(last), 5)), (last * 32768 + 5) * 2);  // of 32-bit indices too
  const View<const float, 3> cube(address<const float>(kBase), {2048, 2048, 2048});
  EXPECT_EQ(distance(cube.data, &cube(2047, 2047, 2047)), ((std::int64_t{1} << 33) - 1) * 4);
}

TEST(Fault74, SizesOfTheLargestLayoutsFit) {
  const RowLayout row{RowFormat::fp8_e8m0, 1 << 24};
  EXPECT_EQ(row.bytes(), (std::int64_t{1} << 24) + (std::int64_t{1} << 19));
  const RingLayout window{
      .name = kWindow, .row_bytes = row.bytes(), .row = row, .recent = (1 << 24) - 1, .period = 1, .kept = 1 << 24};
  const Ring ring(host_memory(), window.row_bytes, window.most_slots({std::int64_t{1} << 30, 0}));
  EXPECT_EQ(ring.bytes_to_grow(std::int64_t{1} << 30), (std::int64_t{1} << 24) * row.bytes());
  const PageTable table(host_memory(), row.bytes(), 1 << 20);
  EXPECT_EQ(table.bytes_for(std::int64_t{1} << 31), (std::int64_t{1} << 31) * row.bytes());
  const std::array<std::int32_t, 2> blocks{0, (1 << 28) - 1};
  const IndexRange range{std::int64_t{1} << 31, true, blocks, 8};
  EXPECT_EQ(range.position(15), (std::int64_t{1} << 31) - 1);
}

}  // namespace
}  // namespace skim::test

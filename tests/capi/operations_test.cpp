// Claims: what C++ does is there in C, and does the same.
#include <array>
#include <cstring>

#include "capi/fixture.hpp"
#include "cases.hpp"
#include "kernels/registry.hpp"

namespace skim::test {
namespace {

using Bits = std::vector<std::uint16_t>;

class Operations : public CApi {
 protected:
  /// What comes out for the token after the first `tokens` of a sequence that was fed nothing else.
  Bits next_of_fresh(std::int64_t tokens) {
    const std::int64_t fresh = new_sequence(cache_);
    feed(cache_, fresh, tokens);
    return feed(cache_, fresh, 1);
  }
  std::string problem(const std::vector<skim_batch_entry>& entries) {
    std::array<char, 256> buffer{};
    skim_text text{buffer.data(), buffer.size(), 0};
    EXPECT_TRUE(ok(skim_cache_admission_problem(cache_, entries.data(), entries.size(), &text, &error_), error_));
    EXPECT_EQ(text.length, std::strlen(buffer.data()));
    return buffer.data();
  }
};

TEST_F(Operations, ForkAndTruncateBringBackWhatWasThere) {
  const Bits expected = next_of_fresh(7);
  feed(cache_, sequence_, 12);
  std::int64_t child = -1;
  ASSERT_TRUE(ok(skim_cache_fork(cache_, sequence_, 7, &child, &error_), error_));
  EXPECT_EQ(length(cache_, child), 7);
  ASSERT_TRUE(ok(skim_cache_truncate(cache_, sequence_, 7, &error_), error_));
  EXPECT_EQ(feed(cache_, child, 1), expected);
  EXPECT_EQ(feed(cache_, sequence_, 1), expected);
  ASSERT_TRUE(ok(skim_cache_remove(cache_, child, &error_), error_));
  EXPECT_EQ(skim_cache_length(cache_, child, &child, nullptr), SKIM_INVALID_ARGUMENT);
}

TEST_F(Operations, AcceptedTokensAreAsIfOnlyTheyHadBeenFed) {
  feed(cache_, sequence_, 4);
  skim_batch* batch = new_batch(5);
  forward(batch, 4);
  EXPECT_TRUE(ok(skim_batch_commit_sequence(batch, sequence_, 2, &error_), error_));
  skim_batch_free(batch);
  EXPECT_EQ(length(cache_, sequence_), 6);
  EXPECT_EQ(feed(cache_, sequence_, 1), next_of_fresh(6));
}

TEST_F(Operations, ABatchFreedWithoutCommitNeverWas) {
  const Bits expected = next_of_fresh(3);
  feed(cache_, sequence_, 3);
  std::int64_t before = 0, after = 0;
  ASSERT_TRUE(ok(skim_cache_bytes(cache_, &before, &error_), error_));
  skim_batch* batch = new_batch(20);
  forward(batch, 3);
  std::int64_t workspace = 0;
  EXPECT_TRUE(ok(skim_cache_workspace_bytes(cache_, &workspace, &error_), error_));
  EXPECT_GT(workspace, 0);
  skim_batch_free(batch);
  ASSERT_TRUE(ok(skim_cache_bytes(cache_, &after, &error_), error_));
  EXPECT_EQ(after, before);
  EXPECT_EQ(feed(cache_, sequence_, 1), expected);
}

TEST_F(Operations, RowsMayBeApartAndTheSame) {
  const Bits expected = next_of_fresh(2);
  skim_batch* batch = new_batch(3);
  const std::int64_t stride = dim_ + 5;
  Bits apart(static_cast<std::size_t>(3 * stride), 0x1234), x = states(0, 3);
  for (std::size_t r = 0; r < 3; ++r) std::copy_n(&x[r * dim_], dim_, &apart[r * stride]);
  for (const int layer : layers_) {
    Bits rows = apart;
    const skim_const_rows in{rows.data(), 3, dim_, stride};
    const skim_rows out{rows.data(), 3, dim_, stride};
    ASSERT_TRUE(ok(skim_batch_forward(batch, layer, &in, &out, &error_), error_));
    EXPECT_EQ(rows[dim_], 0x1234);  // between the rows
    if (layer == layers_.back()) {
      EXPECT_EQ(Bits(&rows[2 * stride], &rows[2 * stride] + dim_), expected);
    }
  }
  skim_batch_free(batch);
}

TEST_F(Operations, SequencesGoToFilesAndComeBack) {
  const std::string file = testing::TempDir() + "capi-" + std::to_string(getpid()) + ".seq";
  feed(cache_, sequence_, 9);
  ASSERT_TRUE(ok(skim_cache_save(cache_, sequence_, file.c_str(), &error_), error_));
  skim_cache* other = new_cache();
  std::int64_t loaded = -1;
  ASSERT_TRUE(ok(skim_cache_load(other, file.c_str(), &loaded, &error_), error_));
  std::filesystem::remove(file);
  EXPECT_EQ(length(other, loaded), 9);
  EXPECT_EQ(feed(other, loaded, 1), feed(cache_, sequence_, 1));
  skim_cache_free(other);
}

TEST_F(Operations, ListsAreCutOffAndCounted) {
  feed(cache_, sequence_, 9);
  std::size_t count = 0;
  ASSERT_TRUE(ok(skim_cache_restorable(cache_, sequence_, nullptr, 0, &count, &error_), error_));
  ASSERT_EQ(count, 1u);  // V3.2 goes back to any length
  skim_length_range range{};
  ASSERT_TRUE(ok(skim_cache_restorable(cache_, sequence_, &range, 1, &count, &error_), error_));
  EXPECT_EQ(std::pair(range.first, range.last), std::pair(std::int64_t{0}, std::int64_t{9}));
  std::int32_t layers[] = {-1, -1};
  ASSERT_TRUE(ok(skim_model_layers(model_, layers, 1, &count, &error_), error_));
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(layers[0], 0);
  EXPECT_EQ(layers[1], -1);
}

TEST_F(Operations, AdmissionIsToldInAdvance) {
  EXPECT_EQ(problem({{sequence_, 64}}), "");
  EXPECT_NE(problem({{sequence_, 65}}).find("max_tokens is 64"), std::string::npos);
  EXPECT_NE(problem({{sequence_ + 1, 1}}).find("sequence 1"), std::string::npos);
  std::array<char, 8> little{};
  const skim_batch_entry entry{sequence_, 65};
  skim_text text{little.data(), little.size(), 0};
  ASSERT_TRUE(ok(skim_cache_admission_problem(cache_, &entry, 1, &text, &error_), error_));
  EXPECT_STREQ(little.data(), "cache: ");
  EXPECT_GT(text.length, 20u);
}

TEST_F(Operations, FactsAreThoseOfCpp) {
  const Config config = named_config("v41-tiny");
  skim_checkpoint* checkpoint = nullptr;
  ASSERT_TRUE(ok(skim_checkpoint_synthetic("v41-tiny", 3, &checkpoint, &error_), error_));
  skim_config facts{};
  facts.size = sizeof facts;
  ASSERT_TRUE(ok(skim_checkpoint_config(checkpoint, &facts, &error_), error_));
  EXPECT_EQ(facts.model_type, model_type(config));
  EXPECT_EQ(facts.dim, hidden_dim(config));
  EXPECT_EQ(facts.backbone_layers, backbone_layers(config));
  EXPECT_EQ(facts.layers, layer_count(config));
  for (int layer = 0; layer < layer_count(config); ++layer) {
    skim_layer_role role{};
    role.size = sizeof role;
    ASSERT_TRUE(ok(skim_checkpoint_layer_role(checkpoint, layer, &role, &error_), error_));
    const LayerRole expected = layer_role(config, layer);
    EXPECT_EQ(role.role, role_name(expected.role));
    EXPECT_EQ((std::array{role.ratio, role.kv_source, role.index_source, role.candidate_source}),
              (std::array<std::int64_t, 4>{expected.ratio, expected.kv_source, expected.index_source,
                                           expected.candidate_source}));
  }
  skim_cache_cost cost{};
  cost.size = sizeof cost;
  const std::vector<std::int32_t> layers = {0, 1, 2};
  ASSERT_TRUE(ok(skim_checkpoint_cache_cost(checkpoint, layers.data(), layers.size(), 5, &cost, &error_), error_));
  EXPECT_EQ(cost.bytes_per_token, cache_cost(config, layers, 5).bytes_per_token);
  EXPECT_EQ(cost.bytes_fixed, cache_cost(config, layers, 5).bytes_fixed);
  skim_checkpoint_free(checkpoint);
}

TEST_F(Operations, AModelHasTheLayersAndKernelsAskedFor) {
  const std::int32_t wanted[] = {1};
  const skim_model_options options{sizeof options, wanted, 1, "reference", 0};
  skim_model* model = nullptr;
  ASSERT_TRUE(ok(skim_model_create(checkpoint_, &options, &model, &error_), error_));
  skim_model_info info{}, whole{};
  info.size = whole.size = sizeof info;
  ASSERT_TRUE(ok(skim_model_get_info(model, &info, &error_), error_));
  ASSERT_TRUE(ok(skim_model_get_info(model_, &whole, &error_), error_));
  EXPECT_STREQ(info.kernels, "reference");
  EXPECT_EQ(info.layer_count, 1);
  EXPECT_LT(info.weight_bytes, whole.weight_bytes);
  std::int32_t layer = -1;
  std::size_t count = 0;
  ASSERT_TRUE(ok(skim_model_layers(model, &layer, 1, &count, &error_), error_));
  EXPECT_EQ(layer, 1);
  skim_model_free(model);
}

TEST(KernelSets, AreListedBestFirst) {
  std::size_t count = 0;
  ASSERT_EQ(skim_kernel_set_count(&count, nullptr), SKIM_OK);
  ASSERT_EQ(count, kernel_sets().size());
  for (std::size_t i = 0; i < count; ++i) {
    skim_kernel_set set{};
    set.size = sizeof set;
    ASSERT_EQ(skim_kernel_set_info(i, &set, nullptr), SKIM_OK);
    EXPECT_EQ(set.name, kernel_sets()[i].name);
    EXPECT_EQ(set.description, kernel_sets()[i].description);  // not cut off
    EXPECT_EQ(set.available != 0, is_available(kernel_sets()[i]));
  }
}

TEST(Version, IsThatOfTheHeader) { EXPECT_EQ(skim_version(), SKIM_VERSION); }

class VerifyInC : public testing::TestWithParam<double> {};

TEST_P(VerifyInC, SaysWhetherARecordingHolds) {
  const std::string file = case_path("v32-tiny-bf16");
  const double tolerance = GetParam();
  const skim_verify_options options{sizeof options, "portable", &tolerance, nullptr, 1};
  std::int32_t passed = -1;
  std::vector<char> buffer(1 << 16);
  skim_text text{buffer.data(), buffer.size(), 0};
  skim_error error{};
  ASSERT_TRUE(ok(skim_verify(file.c_str(), &options, &passed, &text, &error), error));
  const VerifyReport expected = verify(file, {.kernels = "portable", .tolerance = tolerance, .threads = 1});
  EXPECT_EQ(passed, expected.passed() ? 1 : 0);
  EXPECT_EQ(std::string(buffer.data(), text.length), report_text(expected));
  EXPECT_EQ(passed, tolerance > 0 ? 1 : 0);  // portable kernels sum in another order than the recording
}

INSTANTIATE_TEST_SUITE_P(Every, VerifyInC, testing::Values(1.0, 0.0));

}  // namespace
}  // namespace skim::test

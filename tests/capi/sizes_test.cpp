// Claims: structs of older and newer callers work; sizes that no version has are refused.
#include <array>
#include <cstddef>
#include <cstring>

#include "capi/fixture.hpp"
#include "cases.hpp"

namespace skim::test {
namespace {

/// A struct with fields of a later version.
template <class Struct>
struct Later {
  Struct known;
  std::array<std::uint64_t, 2> more;
};

class Sizes : public CApi {
 protected:
  /// `call` takes options and an error.
  template <class Options, class Call>
  void check_options(const Call& call) {
    Later<Options> later{};
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, sizeof(Options) + 1, SIZE_MAX}) {
      later.known.size = size;
      EXPECT_TRUE(refuses_in_c([&](skim_error* e) { return call(&later.known, e); }, SKIM_INVALID_ARGUMENT, "size is"));
    }
    later.known.size = sizeof(std::size_t);
    EXPECT_TRUE(ok(call(&later.known, &error_), error_));
    later.known.size = sizeof later;
    EXPECT_TRUE(ok(call(&later.known, &error_), error_));
    later.more[1] = 1;
    const std::string byte = "byte " + std::to_string(sizeof(Options) + 8);
    EXPECT_TRUE(refuses_in_c([&](skim_error* e) { return call(&later.known, e); }, SKIM_INVALID_ARGUMENT, byte));
  }

  /// `call` fills in an info.
  template <class Info, class Call>
  void check_info(const Call& call) {
    Later<Info> whole, untouched;
    std::memset(&whole, 0x55, sizeof whole);
    std::memset(&untouched, 0x55, sizeof untouched);
    whole.known.size = sizeof whole;
    EXPECT_TRUE(ok(call(&whole.known, &error_), error_));
    EXPECT_EQ(whole.known.size, sizeof whole);
    EXPECT_EQ(whole.more, (std::array<std::uint64_t, 2>{}));
    Later<Info> part = untouched;
    constexpr std::size_t early = 16;
    part.known.size = early;
    EXPECT_TRUE(ok(call(&part.known, &error_), error_));
    const auto bytes = [](const Later<Info>& info) { return reinterpret_cast<const std::byte*>(&info); };
    constexpr std::size_t size_bytes = sizeof(std::size_t);
    EXPECT_EQ(std::memcmp(bytes(part) + size_bytes, bytes(whole) + size_bytes, early - size_bytes), 0);
    EXPECT_EQ(std::memcmp(bytes(part) + early, bytes(untouched) + early, sizeof part - early), 0);
    part.known.size = 3;
    EXPECT_TRUE(refuses_in_c([&](skim_error* e) { return call(&part.known, e); }, SKIM_INVALID_ARGUMENT, "size is 3"));
  }
};

TEST_F(Sizes, OfModelOptions) {
  check_options<skim_model_options>([&](const skim_model_options* options, skim_error* error) {
    skim_model* model = nullptr;
    const int code = skim_model_create(checkpoint_, options, &model, error);
    EXPECT_EQ(code == SKIM_OK, model != nullptr);
    skim_model_free(model);
    return code;
  });
}

TEST_F(Sizes, OfCacheOptions) {
  check_options<skim_cache_options>([&](const skim_cache_options* options, skim_error* error) {
    skim_cache* cache = nullptr;
    const int code = skim_cache_create(model_, options, &cache, error);
    EXPECT_EQ(code == SKIM_OK, cache != nullptr);
    skim_cache_free(cache);
    return code;
  });
}

TEST_F(Sizes, OfVerifyOptions) {
  check_options<skim_verify_options>([&](const skim_verify_options* options, skim_error* error) {
    std::int32_t passed = 0;
    return skim_verify(case_path("v32-tiny-bf16").c_str(), options, &passed, nullptr, error);
  });
}

TEST_F(Sizes, OfInfos) {
  check_info<skim_kernel_set>([](auto* info, skim_error* error) { return skim_kernel_set_info(0, info, error); });
  check_info<skim_config>(
      [&](auto* info, skim_error* error) { return skim_checkpoint_config(checkpoint_, info, error); });
  check_info<skim_layer_role>(
      [&](auto* info, skim_error* error) { return skim_checkpoint_layer_role(checkpoint_, 1, info, error); });
  check_info<skim_cache_cost>([&](auto* info, skim_error* error) {
    return skim_checkpoint_cache_cost(checkpoint_, layers_.data(), layers_.size(), 0, info, error);
  });
  check_info<skim_model_info>([&](auto* info, skim_error* error) { return skim_model_get_info(model_, info, error); });
}

TEST_F(Sizes, AnOlderCallerGetsTheDefaultsOfTheRest) {
  skim_cache_options options{};
  options.size = offsetof(skim_cache_options, max_sequences);
  options.max_tokens = 3;
  options.max_sequences = -1;  // not looked at
  skim_cache* cache = nullptr;
  ASSERT_TRUE(ok(skim_cache_create(model_, &options, &cache, &error_), error_));
  const std::int64_t first = new_sequence(cache), second = new_sequence(cache);
  EXPECT_NE(first, second);
  feed(cache, first, 3);
  const skim_batch_entry more{second, 4};
  skim_batch* batch = nullptr;
  EXPECT_EQ(skim_batch_begin(cache, &more, 1, &batch, &error_), SKIM_LIMIT_EXCEEDED) << error_.message;
  skim_cache_free(cache);
}

/// Fault 147: structs without a size have no way to grow, so programs rely on these offsets for good.
TEST(StructsWithoutSize, KeepTheirLayout) {
  EXPECT_EQ(sizeof(skim_error), sizeof(int) + 512);
  EXPECT_EQ(offsetof(skim_error, message), sizeof(int));
  EXPECT_EQ(sizeof(skim_text), 3 * sizeof(std::size_t));
  EXPECT_EQ(offsetof(skim_text, length), 2 * sizeof(std::size_t));
  EXPECT_EQ(sizeof(skim_length_range), 16u);
  EXPECT_EQ(offsetof(skim_length_range, last), 8u);
  EXPECT_EQ(sizeof(skim_batch_entry), 16u);
  EXPECT_EQ(offsetof(skim_batch_entry, tokens), 8u);
  EXPECT_EQ(sizeof(skim_rows), 32u);
  EXPECT_EQ(offsetof(skim_rows, rows), 8u);
  EXPECT_EQ(offsetof(skim_rows, width), 16u);
  EXPECT_EQ(offsetof(skim_rows, stride), 24u);
  EXPECT_EQ(sizeof(skim_const_rows), sizeof(skim_rows));
  EXPECT_EQ(offsetof(skim_const_rows, stride), offsetof(skim_rows, stride));
}

}  // namespace
}  // namespace skim::test

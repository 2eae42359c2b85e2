#include "skim/tensor.hpp"

#include <gtest/gtest.h>

#include "base/dtype.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

TEST(DType, EveryNameLeadsBackToItsDType) {
  for (int i = 0; i <= static_cast<int>(DType::u64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
    EXPECT_GT(dtype_bits(dtype), 0);
  }
  EXPECT_EQ(dtype_name(DType::f8_e4m3), "F8_E4M3");
  EXPECT_EQ(dtype_bits(DType::f4), 4);
  EXPECT_FALSE(dtype_from_name("f32").has_value());
  EXPECT_FALSE(dtype_from_name("").has_value());
}

TEST(Tensor, CountsElementsWithoutOverflow) {
  const auto elements = [](std::vector<std::int64_t> shape) {
    return Tensor{DType::u8, std::move(shape), {}, {}}.elements();
  };
  EXPECT_EQ(elements({}), 1);
  EXPECT_EQ(elements({3, 4, 5}), 60);
  EXPECT_EQ(elements({3, 0}), 0);
  EXPECT_THROW(elements({1LL << 32, 1LL << 32}), Error);
  EXPECT_THROW(elements({-1, 3}), Error);
}

TEST(Tensor, ShapeTextListsDimensions) {
  const auto text = [](std::vector<std::int64_t> shape) {
    return Tensor{DType::u8, std::move(shape), {}, {}}.shape_text();
  };
  EXPECT_EQ(text({96, 64}), "[96, 64]");
  EXPECT_EQ(text({}), "[]");
  EXPECT_LT(text(std::vector<std::int64_t>(100'000, 1)).size(), 100u);
}

}  // namespace
}  // namespace skim

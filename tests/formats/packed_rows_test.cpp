// Cache rows: packing loses nothing that the round trip of the quantizer did not already lose.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/bf16.hpp"
#include "formats/e2m1.hpp"
#include "formats/e4m3.hpp"
#include "formats/e8m0.hpp"
#include "formats/naive.hpp"
#include "formats/packed_rows.hpp"
#include "formats/quantize.hpp"

namespace skim {
namespace {

constexpr RowFormat kFormats[] = {RowFormat::fp8_e8m0, RowFormat::fp4_e4m3, RowFormat::fp4_e8m0, RowFormat::fp8_f32,
                                  RowFormat::fp8_e8m0_64};

/// All of `width` quantized, with power-of-two scales where there is a choice.
RowLayout layout_of(RowFormat format, int width) { return {format, width, 0, Fp8Scale::pow2}; }

std::string describe(RowLayout layout) {
  static constexpr const char* kNames[] = {"fp8_e8m0", "fp4_e4m3", "fp4_e8m0", "fp8_f32", "fp8_e8m0_64"};
  return kNames[static_cast<int>(layout.format)] + std::string(" of width ") + std::to_string(layout.width) +
         ", tail " + std::to_string(layout.tail) + (layout.fp8_scale == Fp8Scale::pow2 ? ", pow2" : ", float32");
}

std::vector<bf16> random_row(int width, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-4, 4);
  std::vector<bf16> row;
  for (int i = 0; i < width; ++i) {
    const float value = std::ldexp(normal(random), exponent(random));
    row.push_back(to_bf16(random() % 16 == 0 ? std::copysign(0.0f, value) : value));
  }
  return row;
}

/// Quantizes and dequantizes one group element by element; nothing is packed.
void round_trip_group(RowFormat format, std::span<bf16> x) {
  const bool fp8 = RowLayout{format}.is_fp8();
  float scale = 0.0f;
  if (fp8) scale = fp8_group_scale(x, Fp8Scale::pow2);
  if (format == RowFormat::fp4_e4m3) scale = e4m3_to_float(fp4_group_scale_e4m3(x));
  if (format == RowFormat::fp4_e8m0) scale = e8m0_to_float(fp4_group_scale_e8m0(x));
  for (bf16& value : x) {
    const float quotient = to_float(value) / scale;
    const float code = fp8 ? e4m3_to_float(e4m3_from_float(quotient)) : e2m1_to_float(e2m1_from_float(quotient));
    value = to_bf16(code * scale);
  }
}

std::vector<bf16> round_trip(RowLayout layout, std::vector<bf16> row) {
  const auto group = static_cast<std::size_t>(row_group(layout.format));
  for (std::size_t first = 0; first < row.size(); first += group) {
    round_trip_group(layout.format, std::span(row).subspan(first, group));
  }
  return row;
}

std::vector<std::byte> pack(RowLayout layout, const std::vector<bf16>& row) {
  std::vector<std::byte> packed(static_cast<std::size_t>(layout.bytes()));  // exact size: ASan sees any excess
  pack_row(layout, row.data(), packed.data());
  return packed;
}

std::vector<bf16> unpack(RowLayout layout, const std::vector<std::byte>& packed) {
  std::vector<bf16> row(static_cast<std::size_t>(layout.width));
  unpack_row(layout, packed.data(), row.data());
  return row;
}

void expect_same_bits(const std::vector<bf16>& found, const std::vector<bf16>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].bits, expected[i].bits) << "element " << i;
}

/// Calls check(layout, random row) for every format and every legal width up to 512.
template <class Check>
void for_random_rows(Check check) {
  std::mt19937 random(15);
  for (const RowFormat format : kFormats) {
    for (int width = row_group(format); width <= 512; width += row_group(format)) {
      const RowLayout layout = layout_of(format, width);
      SCOPED_TRACE(describe(layout));
      check(layout, random_row(width, random));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(PackedRows, BytesOfTheReleasedShapes) {
  EXPECT_EQ((RowLayout{RowFormat::fp8_e8m0, 512}.bytes()), 528);
  EXPECT_EQ((RowLayout{RowFormat::fp4_e4m3, 512}.bytes()), 288);
  EXPECT_EQ((RowLayout{RowFormat::fp4_e8m0, 128}.bytes()), 68);
  EXPECT_EQ((RowLayout{RowFormat::fp8_f32, 576, 64}.bytes()), 656);  // latent: 512 codes, 4 scales, 64 rotated elements
  EXPECT_EQ((RowLayout{RowFormat::fp8_f32, 128}.bytes()), 132);      // index key
  EXPECT_EQ((RowLayout{RowFormat::fp8_e8m0_64, 512, 64}.bytes()), 583);  // V4: 448 codes, 7 scales, 64 rotated elements
  EXPECT_EQ((RowLayout{RowFormat::fp8_f32, 576, 576}.bytes()), 1152);    // latent that is not quantized
}

TEST(PackedRows, Fp4CodesLieTwoPerByteWithTheScalesBehindThem) {
  std::vector<bf16> row(64);
  for (int i = 0; i < 64; ++i) row[i] = to_bf16((i < 32 ? 1.0f : 4.0f) * kE2m1Values[i % 16]);
  const std::vector<std::byte> e8m0 = pack({RowFormat::fp4_e8m0, 64}, row);
  const std::vector<std::byte> e4m3 = pack({RowFormat::fp4_e4m3, 64}, row);
  for (int byte = 0; byte < 32; ++byte) {
    const unsigned even = 2 * byte % 16, odd = even + 1;
    EXPECT_EQ(e8m0[byte], std::byte(odd << 4 | even)) << byte;
    EXPECT_EQ(e4m3[byte], std::byte(odd << 4 | even)) << byte;
  }
  EXPECT_EQ(std::vector(e8m0.begin() + 32, e8m0.end()), (std::vector{std::byte{127}, std::byte{129}}));
  EXPECT_EQ(std::vector(e4m3.begin() + 32, e4m3.end()),
            (std::vector{std::byte{0x38}, std::byte{0x38}, std::byte{0x48}, std::byte{0x48}}));
}

TEST(PackedRows, Fp8CodesLieOnePerByteWithTheScalesBehindThem) {
  std::vector<bf16> row(64, to_bf16(0.0f));
  row[0] = to_bf16(448.0f);
  row[1] = to_bf16(-1.0f);
  row[63] = to_bf16(-896.0f);
  const std::vector<std::byte> packed = pack({RowFormat::fp8_e8m0, 64}, row);
  EXPECT_EQ(packed[0], std::byte{0x7E});
  EXPECT_EQ(packed[1], std::byte{0xB8});
  EXPECT_EQ(packed[63], std::byte{0xFE});
  EXPECT_EQ(packed[64], std::byte{127});
  EXPECT_EQ(packed[65], std::byte{128});
}

TEST(PackedRows, FloatAndBf16UnpackingAgreeExactly) {
  for_random_rows([](RowLayout layout, const std::vector<bf16>& row) {
    const std::vector<std::byte> packed = pack(layout, row);
    const std::vector<bf16> narrow = unpack(layout, packed);
    std::vector<float> wide(row.size());
    unpack_row(layout, packed.data(), wide.data());
    for (std::size_t i = 0; i < row.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(to_float(narrow[i]))) << i;
    }
  });
}

TEST(PackedRows, ANanMakesItsOwnGroupNanAndNoOther) {
  for (const RowFormat format : kFormats) {
    const int group = row_group(format);
    const RowLayout layout = layout_of(format, 3 * group);
    SCOPED_TRACE(describe(layout));
    std::vector<bf16> row(static_cast<std::size_t>(layout.width), to_bf16(6.0f));
    row[static_cast<std::size_t>(group) + 3] = {0x7FC0};
    const std::vector<bf16> unpacked = unpack(layout, pack(layout, row));
    for (int i = 0; i < layout.width; ++i) {
      if (i / group == 1) {
        EXPECT_TRUE(std::isnan(to_float(unpacked[i]))) << i;
      } else {
        EXPECT_EQ(to_float(unpacked[i]), 6.0f) << i;
      }
    }
  }
}

// ---- fp8_f32 rows ----

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

/// Checks all that can be read of a packed row against the naive quantizer.
void expect_naive_row(RowLayout layout, const std::vector<bf16>& row) {
  // One byte in, so that nothing is aligned; nothing behind the row, so that ASan sees any excess.
  std::vector<std::byte> memory(static_cast<std::size_t>(layout.bytes()) + 1);
  std::byte* packed = memory.data() + 1;
  pack_row(layout, row.data(), packed);
  std::vector<float> codes(static_cast<std::size_t>(layout.quantized())), wide(row.size());
  std::vector<bf16> narrow(row.size());
  unpack_codes(layout, packed, codes.data());
  unpack_row(layout, packed, wide.data());
  unpack_row(layout, packed, narrow.data());
  for (std::size_t i = 0; i < row.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(bits_of(wide[i]), bits_of(to_float(narrow[i])));
    if (i >= codes.size()) {
      ASSERT_EQ(narrow[i].bits, row[i].bits);
      continue;
    }
    const std::size_t first = i / 128 * 128;
    const auto group = std::span(row).subspan(first, std::min<std::size_t>(128, codes.size() - first));
    const float scale = naive_fp8_scale(group, layout.fp8_scale);
    const auto code = static_cast<float>(naive_e4m3(to_float(row[i]) / scale));
    ASSERT_EQ(bits_of(row_scale(layout, packed, static_cast<int>(i / 128))), bits_of(scale));
    ASSERT_EQ(bits_of(codes[i]), bits_of(code));
    ASSERT_EQ(narrow[i].bits, to_bf16(code * scale).bits);
  }
}

TEST(Fp8F32Rows, RandomRowsMatchTheNaiveQuantizer) {
  std::mt19937 random(16);
  for (const Fp8Scale kind : {Fp8Scale::float32, Fp8Scale::pow2}) {
    for (const auto& [width, tail] :
         {std::pair{1, 0}, {2, 1}, {127, 0}, {128, 0}, {129, 0}, {130, 2}, {160, 32}, {257, 1}, {300, 20}, {576, 64}}) {
      const RowLayout layout{RowFormat::fp8_f32, width, tail, kind};
      SCOPED_TRACE(describe(layout));
      for (int run = 0; run < 20; ++run) expect_naive_row(layout, random_row(width, random));
      if (HasFailure()) return;
    }
  }
}

TEST(Fp8F32Rows, CodesThenLittleEndianScalesThenTheTail) {
  std::vector<bf16> row(130, to_bf16(0.0f));
  row[0] = to_bf16(448.0f);
  row[1] = to_bf16(-1.0f);
  row[128] = to_bf16(-672.0f);  // alone in the second group: 672 = 1.5 * 448
  row[129] = {0x1234};
  for (const Fp8Scale kind : {Fp8Scale::float32, Fp8Scale::pow2}) {
    const bool pow2 = kind == Fp8Scale::pow2;
    const std::vector<std::byte> packed = pack({RowFormat::fp8_f32, 130, 1, kind}, row);
    EXPECT_EQ(packed[0], std::byte{0x7E});
    EXPECT_EQ(packed[1], std::byte{0xB8});
    EXPECT_EQ(packed[128], std::byte(pow2 ? 0xFA : 0xFE));  // -336 rounds to -320, the even of two neighbours; -448
    const auto second = bits_of(pow2 ? 2.0f : 672.0f * (1.0f / 448.0f));
    std::vector<std::byte> want = {std::byte{0}, std::byte{0}, std::byte{0x80}, std::byte{0x3F}};
    for (int shift = 0; shift < 32; shift += 8) want.push_back(std::byte(second >> shift & 0xFF));
    want.insert(want.end(), {std::byte{0x34}, std::byte{0x12}});
    EXPECT_EQ(std::vector(packed.begin() + 129, packed.end()), want);
  }
}

TEST(Fp8F32Rows, ANanSpoilsItsGroupAndTheTailKeepsEveryBit) {
  for (const Fp8Scale kind : {Fp8Scale::float32, Fp8Scale::pow2}) {
    const RowLayout layout{RowFormat::fp8_f32, 300, 20, kind};
    SCOPED_TRACE(describe(layout));
    std::vector<bf16> row(300, to_bf16(6.0f));
    row[130] = {0x7FC0};
    const std::uint16_t odd[] = {0x7FC1, 0xFF81, 0x7F80, 0xFF80, 0x8000, 0x0001};  // NaNs, infinities, -0, a denormal
    for (std::size_t i = 0; i < std::size(odd); ++i) row[280 + i] = {odd[i]};
    const std::vector<std::byte> packed = pack(layout, row);
    const std::vector<bf16> unpacked = unpack(layout, packed);
    EXPECT_TRUE(std::isnan(row_scale(layout, packed.data(), 1)));
    for (std::size_t i = 0; i < 300; ++i) {
      if (i / 128 == 1)
        EXPECT_TRUE(std::isnan(to_float(unpacked[i]))) << i;
      else
        EXPECT_EQ(unpacked[i].bits, row[i].bits) << i;
    }
  }
}

TEST(Fp8F32Rows, ZerosKeepTheirSignUnderTheLeastScale) {
  std::vector<bf16> row(140, bf16{0});
  for (std::size_t i = 0; i < row.size(); i += 3) row[i] = {0x8000};
  for (const Fp8Scale kind : {Fp8Scale::float32, Fp8Scale::pow2}) {
    const RowLayout layout{RowFormat::fp8_f32, 140, 0, kind};
    const std::vector<std::byte> packed = pack(layout, row);
    for (int group = 0; group < 2; ++group) {
      EXPECT_EQ(row_scale(layout, packed.data(), group), kind == Fp8Scale::pow2 ? 0x1p-22f : 1e-4f * (1.0f / 448.0f));
    }
    expect_same_bits(unpack(layout, packed), row);
  }
}

TEST(Fault15, UnpackOfPackIsTheRoundTripBitForBit) {
  for_random_rows([](RowLayout layout, const std::vector<bf16>& row) {
    expect_same_bits(unpack(layout, pack(layout, row)), round_trip(layout, row));
  });
}

TEST(Fault15, RoundTrippedRowsPackWithoutLoss) {
  for_random_rows([](RowLayout layout, std::vector<bf16> row) {
    // An fp4_e4m3 group of an e4m3 subnormal scale may round again; one large element per group keeps scales normal.
    for (std::size_t i = 0; i < row.size(); i += 16) row[i] = to_bf16(1.0f + 0.25f * static_cast<float>(i % 7));
    const std::vector<bf16> once = round_trip(layout, row);
    const std::vector<bf16> twice = unpack(layout, pack(layout, once));
    expect_same_bits(twice, once);
    expect_same_bits(unpack(layout, pack(layout, twice)), once);
  });
}

TEST(Fault15, EveryAmaxPacksWithoutLossUnlessItsScaleIsAnE4m3Subnormal) {
  for (const RowFormat format : kFormats) {
    const RowLayout layout = layout_of(format, row_group(format));
    SCOPED_TRACE(describe(layout));
    for (std::uint16_t bits = 0; bits < 0x7F60; ++bits) {  // from there on fp4_e8m0 rounds up to 2^128
      std::vector<bf16> row(static_cast<std::size_t>(layout.width), to_bf16(0.0f));
      for (std::size_t i = 0; i < 8; ++i) row[i] = to_bf16(to_float({bits}) * (1.0f - 0.125f * static_cast<float>(i)));
      const std::vector<std::byte> packed = pack(layout, row);
      const int scale = std::to_integer<int>(packed[static_cast<std::size_t>(layout.code_bytes())]);
      if (format == RowFormat::fp4_e4m3 && scale > 1 && scale < 8) continue;
      const std::vector<bf16> unpacked = unpack(layout, packed);
      SCOPED_TRACE(bits);
      expect_same_bits(unpack(layout, pack(layout, unpacked)), unpacked);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Fault15, AnE4m3SubnormalScaleMayRoundAgain) {
  const RowLayout layout{RowFormat::fp4_e4m3, 16};
  std::vector<bf16> row(16, to_bf16(0.0f));
  row[0] = to_bf16(9 * 0x1p-9f);  // scale 1.5 * 2^-9 rounds to 2^-8, the code of 4.5 to 4
  const std::vector<bf16> once = unpack(layout, pack(layout, row));
  EXPECT_EQ(to_float(once[0]), 8 * 0x1p-9f);
  EXPECT_EQ(to_float(unpack(layout, pack(layout, once))[0]), 6 * 0x1p-9f);  // scale 1.33 * 2^-9 rounds to 2^-9
}

TEST(Fault15, BytesPerTokenOfTheReleasedModelAre890) {
  const std::int64_t position =
      RowLayout{RowFormat::fp4_e4m3, 512}.bytes() + RowLayout{RowFormat::fp4_e8m0, 128}.bytes();
  EXPECT_EQ(3 * position / 2 + position, 890);  // sources 2, 8, 14 at ratio 2 and source 20 at ratio 1
}

}  // namespace
}  // namespace skim

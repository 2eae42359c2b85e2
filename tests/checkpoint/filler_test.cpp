// Claims: synthetic tensors are what filler/1 says: a function of the tensor's name and the element alone.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "named_v32.hpp"
#include "named_v41.hpp"
#include "skim/checkpoint.hpp"

namespace skim::test {
namespace {

/// The 24 random bits of an element.
std::uint64_t random_bits(const std::string& name, std::uint64_t element) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : name) {
    h ^= static_cast<std::uint8_t>(c);
    h *= 1099511628211u;
  }
  std::uint64_t z = h + element * 0x9E3779B97F4A7C15u + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) >> 40;
}

double uniform(const std::string& name, std::uint64_t element) {
  return 2 * (static_cast<double>(random_bits(name, element)) / 16777216.0) - 1;
}

/// The bf16 nearest to float32(v), as a number.
double rounded_to_bf16(double v) {
  const double single = static_cast<float>(v);
  if (single == 0) return 0;
  const int exponent = std::ilogb(single);
  return std::ldexp(std::nearbyint(std::ldexp(single, 7 - exponent)), exponent - 7);
}

double e4m3_value(unsigned code) {
  const unsigned exponent = code >> 3 & 15u, mantissa = code & 7u;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, static_cast<int>(exponent) - 10);
  return (code & 128u) != 0 ? -magnitude : magnitude;
}

/// The code whose value is nearest, the even one of two that are equally near.
unsigned nearest_e4m3(double v) {
  const double single = static_cast<float>(v);
  const unsigned sign = std::signbit(single) ? 128 : 0;
  unsigned best = sign;
  for (unsigned code = sign; code < sign + 127; ++code) {
    const double closer = std::abs(e4m3_value(best) - single) - std::abs(e4m3_value(code) - single);
    if (closer > 0 || (closer == 0 && code % 2 == 0)) best = code;
  }
  return best;
}

template <class T>
T element(const Tensor& tensor, std::uint64_t i) {
  T value{};
  std::memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

double bf16_element(const Tensor& tensor, std::uint64_t i) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(element<std::uint16_t>(tensor, i)) << 16);
}

std::uint64_t count(const Tensor& tensor) { return static_cast<std::uint64_t>(tensor.elements()); }

const Checkpoint& tiny() {
  static const Checkpoint checkpoint = Checkpoint::synthetic(named_v41("v41-tiny"));
  return checkpoint;
}

TEST(Filler, PlainWeightsAreUniform) {
  const std::pair<const char*, double> rows[] = {{"layers.0.attn.wo_a.weight", 128},
                                                 {"layers.2.attn.compressor.wgate.weight", 128},
                                                 {"layers.4.attn.indexer.wk.weight", 64},
                                                 {"layers.5.attn.indexer.weights_proj.weight", 128}};
  for (const auto& [name, in_features] : rows) {
    const Tensor tensor = tiny().tensor(name);
    EXPECT_EQ(tensor.dtype, DType::bf16);
    for (std::uint64_t i = 0; i < count(tensor); ++i) {
      ASSERT_EQ(bf16_element(tensor, i), rounded_to_bf16(uniform(name, i) * std::sqrt(3 / in_features)))
          << name << " " << i;
    }
  }
}

TEST(Filler, Fp8WeightsAreCodesWithScales) {
  const std::pair<std::string, double> rows[] = {{"layers.0.attn.wq_a", 128},
                                                 {"layers.3.attn.wq_b", 64},
                                                 {"layers.5.attn.indexer.wq_b", 64},
                                                 {"mtp.0.attn.wo_b", 64}};
  for (const auto& [name, in_features] : rows) {
    const std::string codes_name = name + ".weight", scales_name = name + ".scale";
    const Tensor codes = tiny().tensor(codes_name), scales = tiny().tensor(scales_name);
    EXPECT_EQ(codes.dtype, DType::f8_e4m3);
    EXPECT_EQ(scales.dtype, DType::f8_e8m0);
    for (std::uint64_t i = 0; i < count(codes); ++i) {
      ASSERT_EQ(element<std::uint8_t>(codes, i), nearest_e4m3(448 * uniform(codes_name, i))) << codes_name << " " << i;
    }
    const double base = std::floor(std::log2(std::sqrt(3 / in_features) / 448));
    for (std::uint64_t i = 0; i < count(scales); ++i) {
      const double exponent = base + static_cast<double>(random_bits(scales_name, i) % 3) - 1;
      ASSERT_EQ(element<std::uint8_t>(scales, i), 127 + exponent) << scales_name << " " << i;
    }
  }
}

TEST(Filler, NormsAreNearOneAndSinksUniform) {
  for (const std::string name : {"layers.0.attn.q_norm.weight", "layers.4.attn.compressor.norm.weight"}) {
    const Tensor tensor = tiny().tensor(name);
    EXPECT_EQ(tensor.dtype, DType::bf16);
    for (std::uint64_t i = 0; i < count(tensor); ++i) {
      ASSERT_EQ(bf16_element(tensor, i), rounded_to_bf16(1 + 0.1 * uniform(name, i))) << name << " " << i;
    }
  }
  const std::string name = "layers.6.attn.attn_sink";
  const Tensor sink = tiny().tensor(name);
  EXPECT_EQ(sink.dtype, DType::f32);
  for (std::uint64_t i = 0; i < count(sink); ++i) {
    EXPECT_EQ(element<float>(sink, i), static_cast<float>(uniform(name, i)));
  }
}

TEST(Filler, InputsHaveVarianceOne) {
  const std::string name = "flash.call.0.layer.20.x";
  const Tensor tensor = synthetic_input(name, {3, 100});
  EXPECT_EQ(tensor.dtype, DType::bf16);
  EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{3, 100}));
  double squares = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(bf16_element(tensor, i), rounded_to_bf16(uniform(name, i) * std::sqrt(3.0))) << i;
    squares += bf16_element(tensor, i) * bf16_element(tensor, i);
  }
  EXPECT_NEAR(squares / 300, 1, 0.2);
  EXPECT_EQ(synthetic_input(name, {0, 5}).elements(), 0);
}

TEST(Filler, KnownValues) {
  EXPECT_EQ(element<std::uint16_t>(tiny().tensor("layers.0.attn.wo_a.weight"), 4660), 0xBE11u);
  EXPECT_EQ(element<std::uint16_t>(tiny().tensor("layers.0.attn.q_norm.weight"), 5), 0x3F86u);
  EXPECT_EQ(element<std::uint8_t>(tiny().tensor("layers.0.attn.wq_a.weight"), 8191), 0x7Eu);
  EXPECT_EQ(element<std::uint8_t>(tiny().tensor("layers.0.attn.wq_a.scale"), 7), 115u);
  EXPECT_EQ(element<std::uint32_t>(tiny().tensor("layers.0.attn.attn_sink"), 3), 0x3F4A9E78u);
  EXPECT_EQ(element<std::uint16_t>(synthetic_input("flash.call.0.layer.0.x", {2, 4}), 7), 0xBF77u);
}

TEST(Filler, Bf16ModelsHaveNoScales) {
  V41Config config = named_v41("v41-tiny");
  config.weight_type = WeightType::bf16;
  const Checkpoint checkpoint = Checkpoint::synthetic(config);
  const std::string name = "layers.0.attn.wq_b.weight";
  EXPECT_FALSE(checkpoint.contains("layers.0.attn.wq_b.scale"));
  const Tensor tensor = checkpoint.tensor(name);
  ASSERT_EQ(tensor.dtype, DType::bf16);
  for (std::uint64_t i = 0; i < count(tensor); ++i) {
    ASSERT_EQ(bf16_element(tensor, i), rounded_to_bf16(uniform(name, i) * std::sqrt(3.0 / 64))) << i;
  }
}

TEST(Filler, V32ScalesArePowersOfTwoOnlyWithUe8m0) {
  for (const bool ue8m0 : {true, false}) {
    V32Config config = named_v32("v32");
    config.ue8m0_scales = ue8m0;
    const Checkpoint checkpoint = Checkpoint::synthetic(config);
    const std::pair<std::string, double> rows[] = {{"model.layers.0.self_attn.q_b_proj.weight_scale_inv", 1536},
                                                   {"model.layers.60.self_attn.kv_b_proj.weight_scale_inv", 512}};
    for (const auto& [name, in_features] : rows) {
      const Tensor scales = checkpoint.tensor(name);
      EXPECT_EQ(scales.dtype, DType::f32);
      const double base = std::sqrt(3 / in_features) / 448;
      for (std::uint64_t i = 0; i < count(scales); ++i) {
        const double power = std::floor(std::log2(base)) + static_cast<double>(random_bits(name, i) % 3) - 1;
        const double want = ue8m0 ? std::exp2(power) : base * std::exp2(uniform(name, i));
        ASSERT_EQ(element<float>(scales, i), static_cast<float>(want)) << name << " " << i;
      }
    }
  }
}

TEST(Filler, V32BiasesAreSmall) {
  const std::string name = "model.layers.1.self_attn.indexer.k_norm.bias";
  const Tensor tensor = Checkpoint::synthetic(named_v32("v32-tiny")).tensor(name);
  EXPECT_EQ(tensor.dtype, DType::bf16);
  for (std::uint64_t i = 0; i < count(tensor); ++i) {
    ASSERT_EQ(bf16_element(tensor, i), rounded_to_bf16(0.1 * uniform(name, i))) << i;
  }
}

TEST(Filler, TheSeedChangesEveryTensor) {
  const auto same = [](const Tensor& a, const Tensor& b) {
    return a.dtype == b.dtype && a.shape == b.shape && std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin());
  };
  V32Config v32 = named_v32("v32-tiny");
  v32.ue8m0_scales = false;
  for (const Config& config : {Config(named_v41("v41-tiny")), Config(v32)}) {
    const Checkpoint one = Checkpoint::synthetic(config);
    const Checkpoint again = Checkpoint::synthetic(config, 0), other = Checkpoint::synthetic(config, 1);
    int scales_alike = 0;
    for (const TensorInfo& info : one.tensors()) {
      const Tensor tensor = one.tensor(info.name);
      EXPECT_EQ(info.bytes, static_cast<std::int64_t>(tensor.bytes.size()));
      EXPECT_TRUE(same(tensor, again.tensor(info.name))) << info.name;
      EXPECT_EQ(other.tensor(info.name).shape, tensor.shape);
      if (!same(tensor, other.tensor(info.name))) continue;
      EXPECT_EQ(info.dtype, DType::f8_e8m0) << info.name;
      ++scales_alike;
    }
    EXPECT_LE(scales_alike, 1);  // a grid of 2 x 4 scales out of 3 values each may be the same by chance
  }
}

TEST(Filler, NamesAloneMakeTheDifference) {
  const Tensor a = tiny().tensor("layers.0.attn.attn_sink"), b = tiny().tensor("layers.1.attn.attn_sink");
  EXPECT_FALSE(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin()));
}

}  // namespace
}  // namespace skim::test

// Recordings of V3.2: what holds, and where tampering shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "skim/error.hpp"
#include "verify/recording.hpp"

namespace skim::test {
namespace {

/// Everything before attention, which takes the same path in both; the published code has two paths for the rest.
TEST(VerifyV32, V32IndexTensorsAreReproducedExactlyAndTheAbsorbedPathStaysClose) {
  for (const char* file : {"v32-tiny-bf16", "v32-tiny-fp8"}) {
    const VerifyReport report = verify(case_path(file), {.kernels = "reference"});
    for (const char* name : {"qr", "kv_new", "k_pe_new", "index_k_new*index_k_scale_new"}) {
      EXPECT_EQ(kind(report, name).worst, 0) << file << " " << name;
    }
    EXPECT_LE(kind(report, "index_q*index_weights").worst, 1e-6);
    EXPECT_LE(kind(report, "index_score").worst, 2e-6);
    EXPECT_EQ(kind(report, "topk_idxs").worst, 0);  // only ties
    EXPECT_LE(kind(report, "o").worst, 5.2e-3);
    EXPECT_LE(kind(report, "out").worst, 1.6e-2);
  }
}

TEST(VerifyV32, NamesTheFirstV32TensorThatDiffers) {
  for (const char* name : {"qr", "kv_new", "k_pe_new", "o", "out"}) {
    Recording recording("v32-tiny-bf16");
    recording.scale("call.9.layer.0." + std::string(name), 1.1f);
    EXPECT_EQ(recording.verify().first_failure.substr(0, 17 + std::strlen(name)),
              "call 9 layer 0: " + std::string(name) + " ");
  }
  for (const auto& [name, failing] :
       std::map<std::string, std::string>{{"index_weights", "index_q*index_weights"},
                                          {"index_score", "index_score"},
                                          {"index_k_scale_new", "index_k_new*index_k_scale_new"}}) {
    Recording recording("v32-tiny-bf16");
    recording.data<float>("call.9.layer.0." + name)[0] *= 1.5f;
    EXPECT_NE(recording.verify().first_failure.find(": " + failing + " "), std::string::npos);
  }
  for (const char* name : {"index_q", "index_k_new"}) {
    Recording recording("v32-tiny-bf16");
    for (int i = 0; i < 8; ++i) recording.data<std::uint8_t>("call.9.layer.0." + std::string(name))[i] ^= 0x80;
    EXPECT_NE(recording.verify().first_failure.find(": " + std::string(name) + "*"), std::string::npos);
  }
}

/// A scale may flip by a power of two, and then all codes of the head are others and mean the same.
TEST(VerifyV32, Fault138CodesAreJudgedTogetherWithTheirScales) {
  Recording recording("v32-tiny-bf16");
  const std::string base = "call.12.layer.0.";
  std::uint8_t* codes = recording.data<std::uint8_t>(base + "index_k_new");
  for (int i = 0; i < 128; ++i) {
    // Half of a code whose exponent allows it: one less. Others become zero, which is an error that codes may have.
    codes[i] = static_cast<std::uint8_t>((codes[i] & 0x7F) >= 0x10 ? codes[i] - 8 : codes[i] & 0x80);
  }
  recording.data<float>(base + "index_k_scale_new")[0] *= 2;
  EXPECT_EQ(recording.verify().first_failure, "");
  recording.tensors.erase(base + "index_k_scale_new");  // a tensor without its partner is judged by itself
  EXPECT_NE(recording.verify().first_failure.find(": index_k_new differs by"), std::string::npos);
}

/// Positions come in order of their scores; those that a query cannot see fill the row up and mean nothing.
TEST(VerifyV32, InvisibleV32PositionsCountAsNothing) {
  Recording recording("v32-tiny-bf16");
  const std::string name = "call.8.layer.0.topk_idxs";  // prefill of 12 tokens, top 8
  const std::int64_t width = recording.width(name);
  std::int64_t* row_3 = recording.data<std::int64_t>(name) + 3 * width;
  std::reverse(row_3, row_3 + width);
  EXPECT_EQ(recording.verify().first_failure, "");
  std::replace_if(
      row_3, row_3 + width, [](std::int64_t entry) { return entry > 3; }, -1);
  EXPECT_EQ(recording.verify().first_failure, "");
  *std::find(row_3, row_3 + width, 2) = 4;
  EXPECT_EQ(recording.verify().first_failure.substr(0, 47), "call 8 layer 0 sequence 0 row 3: topk_idxs hold");
}

TEST(VerifyV32, AV32RecordingMustSayForWhichContext) {
  Recording recording("v32-tiny-bf16");
  std::string& config = recording.metadata.at("config");
  const std::string field = "\"max_seq_len\": 64";
  ASSERT_NE(config.find(field), std::string::npos);
  const std::string before = config;
  const auto refused = [&](const std::string& instead) {
    config = before;
    config.replace(config.find(field), field.size(), instead);
    try {
      recording.verify();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused("\"max_batch\": 2").find("max_seq_len is missing"), std::string::npos);
  EXPECT_NE(refused("\"max_seq_len\": 40").find("more than max_seq_len 40"), std::string::npos);
  config = before;
  config.replace(config.find("\"original_seq_len\": 16"), 22, "\"original_seq_len\": 64");  // no YaRN
  EXPECT_NE(recording.verify().first_failure, "");
}

}  // namespace
}  // namespace skim::test

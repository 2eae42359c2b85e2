// What is judged how: docs/cases.md, Judging.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "skim/error.hpp"
#include "verify/recording.hpp"
#include "verify/self_recording.hpp"

namespace skim::test {
namespace {

const std::string kLong = "call.19.layer.";  // 37 tokens of 2 sequences

std::string refusal(const Recording& recording, const VerifyOptions& options = {}) {
  try {
    recording.verify(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

void expect_words(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

/// The norm over 700 rows sees no single row: 3.8e-2 of the 4e-2 that fp8 weights are allowed.
TEST(Judging, Fault137OneWrongRowOfManyFails) {
  V41Config config = one_layer(0);
  config.weight_type = WeightType::fp8;
  SelfRecording recording(config, {700}, {"out"});
  EXPECT_EQ(recording.verify().first_failure, "");
  std::fill_n(recording.data<bf16>("call.0.layer.0.out") + 333 * config.dim, config.dim, bf16{0});
  const VerifyReport report = recording.verify({.kernels = "portable"});
  expect_words(report.first_failure, "call 0 layer 0 sequence 0 row 333: out differs by ");
  const VerifyKind& out = kind(report, "out");
  EXPECT_LE(out.worst, out.allowed);
  EXPECT_EQ(out.worst_row_place, (VerifyPlace{0, 0, 0, 333, -1}));
  EXPECT_EQ(out.first_beyond, out.worst_row_place);
}

TEST(Judging, Fault137OneWrongHeadOfManyFails) {
  const V41Config config = one_layer(0);
  SelfRecording recording(config, {3600}, {"q_rope"});
  const std::int64_t width = config.head_dim;
  std::fill_n(recording.data<bf16>("call.0.layer.0.q_rope") + (1234 * config.n_heads + 2) * width, width, bf16{0});
  const VerifyReport report = recording.verify({.kernels = "portable", .tolerance = 1e-2});  // the norm is 8e-3
  expect_words(report.first_failure, "call 0 layer 0 sequence 0 row 1234 head 2: q_rope differs by ");
  ASSERT_EQ(report.failing.size(), 1u);
  EXPECT_EQ(report.failing[0].worst.place, (VerifyPlace{0, 0, 0, 1234, 2}));
  EXPECT_EQ(report.failing[0].worst.want, std::vector<float>(static_cast<std::size_t>(width)));
}

/// One step of an fp4 code is up to 4.4e-2 of a call of one token, and says nothing about the port.
TEST(Judging, Fault138CallsOfOneTokenAreJudgedTogether) {
  Recording recording("v41-tiny-bf16");
  const auto flip = [&](int call) {
    bf16* value = recording.data<bf16>("call." + std::to_string(call) + ".layer.5.index_q");
    value = std::find_if(value, value + 64, [](bf16 v) { return std::abs(to_float(v)) > 0; });
    *value = to_bf16(to_float(*value) * 1.5f);
  };
  flip(3);
  const VerifyReport report = recording.verify();
  EXPECT_EQ(report.first_failure, "");
  EXPECT_GT(kind(report, "index_q").worst, 0);
  for (int call = 4; call < 19; ++call) flip(call);
  expect_words(recording.verify().first_failure, "calls of one token together by ");
}

/// A pool that is over fails at the first call that is over by itself.
TEST(Judging, APoolFailsWhereACallIsOverByItself) {
  Recording recording("v41-tiny-bf16");
  recording.scale("call.7.layer.2.qr", 1.0005f);
  recording.scale("call.9.layer.3.qr", 1.05f);
  const VerifyReport report = recording.verify({.kernels = "reference"});
  expect_words(report.first_failure, "call 9 layer 3: qr differs by ");
  EXPECT_EQ(report.place, (VerifyPlace{9, 3, -1, -1, -1}));
}

TEST(Judging, Fault139EntriesMustBeFiniteOnBothSides) {
  for (const char* name : {"2.out", "2.qr", "4.index_score", "3.window_kv"}) {
    Recording recording("v41-tiny-bf16");
    recording.data<bf16>(kLong + name)[0] = bf16{0x7FC0};
    expect_words(recording.verify().first_failure, "call 19 layer");
  }
}

TEST(Judging, Fault139ASelectionOfAnotherSizeFails) {
  Recording recording("v41-tiny-bf16");
  const std::string name = kLong + "2.topk_idxs";
  std::int32_t* chosen = recording.data<std::int32_t>(name) + 36 * recording.width(name) + 8;
  chosen[7] = -1;
  EXPECT_EQ(recording.verify().first_failure,
            "call 19 layer 2 sequence 0 row 36: topk_idxs holds 7 entries, expected 8");
}

TEST(Judging, Fault139TensorsWithoutRowsAreNotCompared) {
  Recording recording("v41-tiny-bf16");
  Recording::Entry& entry = recording.tensors.at("call.0.layer.0.qr");
  entry.info.shape = {2, 0, 64};
  entry.bytes.clear();
  const VerifyReport report = recording.verify();
  EXPECT_EQ(report.empty, std::vector<std::string>{"call.0.layer.0.qr"});
  EXPECT_EQ(kind(report, "qr").compared, 202);
  expect_words(report_text(report), "not compared, without rows: 1 tensors, e.g. call.0.layer.0.qr");
}

TEST(Judging, Fault139AMisspeltNameIsRefusedAndTheNearestOffered) {
  for (const auto& [name, words] : std::map<std::string, std::string>{
           {"call.0.layer.0.q_roped", "has no tensor 'q_roped'; the nearest is 'q_rope'"},
           {"call.0.layer.0.index_k", "nearest is 'index_q'"},
           {"call.0.layer.0.kv_new", "nearest is"},
           {"call.0.layers.0.out", "no tensor is called 'call.0.layers.0.out'"},
           {"call.99.rows", "call.99.rows, but there are 29 calls"}}) {
    Recording recording("v41-tiny-bf16");
    recording.tensors[name] = recording.tensors.at("call.0.layer.0.out");
    expect_words(refusal(recording), words);
  }
}

TEST(Judging, Fault139TheReportDoesNotContradictItself) {
  const std::string text = report_text(Recording("v41-tiny-bf16").verify({.kernels = "reference"}));
  EXPECT_EQ(text.find("exact  ;"), std::string::npos);
  expect_words(text, "rows differ, by ties");
}

/// A layer of ratio 0 has no scores that could allow anything.
TEST(Judging, Fault139ALayerOfRatio0HasNoCompressedPositions) {
  Recording recording("v41-tiny-bf16");
  recording.data<std::int32_t>(kLong + "0.topk_idxs")[20 * 8] = 40;  // the offset is 37
  expect_words(recording.verify().first_failure,
               "topk_idxs holds compressed positions, which a layer of ratio 0 has not");
}

/// Exactly as many as the share allows, rounded down but at least one, may need up to 2^-5.
TEST(Judging, OneRowInAHundredMayBeFurtherOff) {
  Recording recording("v41-tiny-bf16");
  const auto exchange = [&](int row) {
    bf16* scores = recording.data<bf16>(kLong + "2.index_score") + row * 18;
    const std::int64_t visible = (row + 1) / 2;
    const float largest = std::abs(to_float(*std::max_element(
        scores, scores + visible, [](bf16 a, bf16 b) { return std::abs(to_float(a)) < std::abs(to_float(b)); })));
    std::int32_t* chosen = recording.data<std::int32_t>(kLong + "2.topk_idxs") + row * 16 + 8;
    const std::set<std::int32_t> before(chosen, chosen + 8);
    for (std::int32_t out = 0; out < 8; ++out) {
      for (std::int32_t in = 37; in < 37 + visible; ++in) {
        const float away = to_float(scores[chosen[out] - 37]) - to_float(scores[in - 37]);
        if (before.contains(in) || away <= largest * 0x1p-6f || away > largest * 0x1p-5f) continue;
        chosen[out] = in;
        std::memcpy(recording.data<std::int32_t>(kLong + "3.topk_idxs") + row * 16 + 8, chosen, 32);
        return true;
      }
    }
    return false;
  };
  for (const char* name : {"2.o", "2.o_lora", "2.out", "3.o", "3.o_lora", "3.out"})
    recording.tensors.erase(kLong + name);
  int rows = 0, exchanged = 0;
  for (int row = 20; row < 37 && exchanged == 0; ++row, ++rows) exchanged += exchange(row) ? 1 : 0;
  if (exchanged == 0) GTEST_SKIP() << "no row has a score that near to its cut-off";
  const VerifyReport report = recording.verify({.kernels = "reference"});
  EXPECT_EQ(report.first_failure, "");
  EXPECT_GT(kind(report, "topk_idxs").worst, 0x1p-7);
}

}  // namespace
}  // namespace skim::test

// Claims: skim bench prints ratios, and writes JSON with what docs/bench.md promises.
#include <fstream>
#include <nlohmann/json.hpp>

#include "command_line.hpp"

namespace skim {
namespace {

TEST_F(CommandLine, BenchWritesJson) {
  const Outcome outcome = skim(
      "bench --model synthetic:v41-tiny --ops \"attend 1 x\",rms_norm --layers 2,3 --context 300,2K "
      "--tokens 9 --threads 1 --kernels portable --compare reference --repeats 2 --seconds 0 --json " +
      path("bench.json"));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("portable is "), std::string::npos) << outcome.output;
  std::ifstream file(path("bench.json"));
  const nlohmann::json report = nlohmann::json::parse(file);
  for (const char* field : {"cpu", "cores", "features"}) EXPECT_TRUE(report.at("machine").contains(field)) << field;
  EXPECT_GT(report.at("ceilings").at("read").at("all_threads").at("median"), 0);
  EXPECT_GT(report.at("ceilings").at("float_baseline").at("one_thread").at("best"), 0);
  const nlohmann::json& results = report.at("results");
  ASSERT_EQ(results.size(), 2u * (2 + 2 * 2 * 2));  // sets, of operations, and of layers, contexts and modes
  EXPECT_EQ(report.at("ratios").size(), results.size() / 2);
  for (const nlohmann::json& result : results) {
    for (const char* field : {"name", "set", "shape", "threads", "best_ns", "median_ns", "worst_ns", "repeats", "flops",
                              "bytes", "gflops", "gbps", "share", "ceiling"}) {
      EXPECT_TRUE(result.contains(field)) << field;
    }
    EXPECT_GT(result.at("best_ns"), 0);
    EXPECT_LE(result.at("best_ns"), result.at("median_ns"));
    EXPECT_LE(result.at("median_ns"), result.at("worst_ns"));
    EXPECT_EQ(result.at("repeats"), 2);
  }
  const nlohmann::json& last = results.back();
  EXPECT_EQ(last.at("name"), "prefill");
  EXPECT_EQ(last.at("layer"), 3);
  EXPECT_EQ(last.at("role"), "reuse");
  EXPECT_EQ(last.at("context"), 2048);
  EXPECT_EQ(last.at("tokens"), 9);
}

TEST_F(CommandLine, BenchComparesMemoryWithWhatItShouldBe) {
  const Outcome outcome = skim(
      "bench --model synthetic:v41-tiny --memory --context 64K --mode decode --threads 1 --json " + path("bench.json"));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  std::ifstream file(path("bench.json"));
  const nlohmann::json report = nlohmann::json::parse(file);
  ASSERT_EQ(report.at("memory").size(), 1u);
  const nlohmann::json& memory = report.at("memory").at(0);
  EXPECT_EQ(memory.at("layers"), nlohmann::json({2, 4, 5}));
  EXPECT_EQ(memory.at("rows"), 3 * 8 * 66 + 512 + 65536 * (36 + 34) * 3 / 2);  // rings, an open token, rows and keys
  EXPECT_GE(memory.at("cache"), memory.at("rows"));
  EXPECT_GT(memory.at("resident"), memory.at("rows"));
  EXPECT_GT(memory.at("workspace"), 0);
}

}  // namespace
}  // namespace skim

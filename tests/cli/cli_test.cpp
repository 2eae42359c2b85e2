// The command line as a person or a script meets it: exit codes, one-line errors, files that come out.
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "command_line.hpp"
#include "kernels/registry.hpp"
#include "skim/machine.hpp"
#include "skim/safetensors.hpp"

namespace skim {
namespace {

TEST_F(CommandLine, HelpNamesEveryCommandAndOption) {
  const auto expect_words = [](const std::string& arguments, const std::vector<std::string>& words) {
    const Outcome outcome = skim(arguments);
    EXPECT_EQ(outcome.status, 0);
    for (const std::string& word : words) EXPECT_NE(outcome.output.find(word), std::string::npos) << word;
  };
  expect_words("--help", {"run", "verify", "info", "bench", "soak", "Exit status", "SKIM_KERNELS"});
  expect_words("run --help", {"--model", "--layers", "--tokens", "--decode", "--input", "--output", "--threads",
                              "--kernels", "--json", "synthetic:v41-flash", "Example"});
  expect_words("verify --help", {"FILE", "--kernels", "--tolerance", "--model", "Exit status 0 only if"});
  expect_words("info --help", {"MODEL", "problems", "--machine"});
  expect_words("bench --help", {"--model", "--ops", "--layers", "--memory", "--context", "--mode", "--tokens",
                                "--kernels", "--compare", "--threads", "--repeats", "--seconds", "--json", "Example"});
  expect_words("soak --help",
               {"--model", "--kernels", "--ops", "--seconds", "--seed", "--threads", "--json", "Exit status 1"});
}

TEST_F(CommandLine, WrongUsageExitsWithTwo) {
  expect_error(2, "", "run, verify, info, bench, soak");
  expect_error(2, "bogus", "bogus");
  expect_error(2, "run", "--model is required");
  expect_error(2, "run --model synthetic:v41-tiny --tokens -3", "--tokens");
  expect_error(2, "run --model synthetic:v41-tiny --layers a", "--layers");
  expect_error(2, "run --model synthetic:v41-tiny --threads 0", "--threads");
  expect_error(2, "info", "MODEL is required");
  expect_error(2, "info --machine synthetic:v32", "MODEL");
  expect_error(2, "verify", "FILE");
  expect_error(2, "verify --tolerance -1 x", "--tolerance");
  expect_error(2, "verify --tolerance nan x", "--tolerance");
  expect_error(2, "bench --context 4G", "--context: is 4G, expected tokens");
  expect_error(2, "bench --context -1", "--context");
  expect_error(2, "bench --mode encode", "--mode");
  expect_error(2, "bench --layers x", "--layers");
  expect_error(2, "bench --repeats 0", "--repeats");
  expect_error(2, "bench --seconds -1", "--seconds");
  expect_error(2, "soak --ops 0", "--ops");
  expect_error(2, "soak --ops many", "--ops");
  expect_error(2, "soak --seconds -1", "--seconds");
  expect_error(2, "soak --ops 5 --seconds 5", "--ops");
  expect_error(2, "soak --seed -1", "--seed");
  expect_error(2, "soak --threads 0", "--threads");
  expect_error(2, "soak 7", "7");
}

TEST_F(CommandLine, BadInputExitsWithOne) {
  expect_error(1, "run --model " + path("nothing"), "no such file or folder");
  expect_error(1, "run --model synthetic:v42", "v41-flash, v41-tiny");
  expect_error(1, "run --model synthetic:v41-tiny --layers 3", "layer 3 needs layer 2");
  expect_error(1, "run --model synthetic:v41-tiny --layers 0,99", "layer 99 does not exist");
  expect_error(1, "run --model synthetic:v41-tiny --kernels fast", "portable, reference");
  expect_error(1, "run --model synthetic:v41-tiny --tokens 0", "at least one token");
  expect_error(1, "run --model synthetic:v41-tiny --output " + path("no/such/folder.safetensors"), "does not exist");
  expect_error(1, "bench --model synthetic:v41-tiny --ops attend,sort", "--ops sort: no operation begins like this");
  expect_error(1, "bench --model synthetic:v41-tiny --layers 3", "layer 3 needs layer 2");
  expect_error(1, "bench --kernels fast", "portable");
  expect_error(1, "bench --compare fast", "portable");
  expect_error(1, "bench --json " + path("no/such/folder.json"), "does not exist");
  expect_error(1, "verify " + path("nothing"), "cannot open");
  expect_error(1, "info " + path("nothing"), "no such file or folder");
}

/// A rename would turn a device or a pipe into a file.
TEST_F(CommandLine, OutputReplacesNothingButFiles) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(1, "run --model synthetic:v41-tiny --layers 0 --tokens 2 --output " + path("pipe"),
               "not a regular file");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  fs::create_symlink(path("target.safetensors"), path("link.safetensors"));
  const std::string run = "run --model synthetic:v41-tiny --layers 0 --tokens 2 --output " + path("link.safetensors");
  EXPECT_EQ(skim(run).status, 0);
  EXPECT_TRUE(fs::is_symlink(path("link.safetensors")));
  EXPECT_TRUE(fs::is_regular_file(path("target.safetensors")));
}

TEST_F(CommandLine, VerifyGoesOnAfterABadFile) {
  const Outcome outcome = skim("verify " + path("nothing") + " " + recording("v41-tiny-bf16.safetensors"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("cannot open"), std::string::npos);
  EXPECT_NE(outcome.output.find("  passed"), std::string::npos) << outcome.output;
}

TEST_F(CommandLine, ATruncatedFileIsRefused) {
  for (const char* name : {"v41-tiny-bf16.safetensors", "v32-tiny-fp8.safetensors"}) {
    fs::copy_file(recording(name), path("cut.safetensors"), fs::copy_options::overwrite_existing);
    for (const std::uintmax_t size : {600'000, 100'000, 9, 3, 0}) {
      fs::resize_file(path("cut.safetensors"), size);
      expect_error(1, "verify " + path("cut.safetensors"), "cut.safetensors: ");
      expect_error(1, "info " + path("cut.safetensors"), "cut.safetensors: ");
    }
  }
}

TEST_F(CommandLine, TheEnvironmentForcesAKernelSet) {
  const Outcome forced = skim("run --model synthetic:v41-tiny --tokens 3", "SKIM_KERNELS=reference");
  EXPECT_NE(forced.output.find("reference kernels"), std::string::npos);
  EXPECT_EQ(skim("run --model synthetic:v41-tiny --tokens 3", "SKIM_KERNELS=nonsense").status, 1);
}

TEST_F(CommandLine, VerifyReportsEveryKindAndTheResult) {
  const Outcome passed = skim("verify --kernels reference " + recording("v41-tiny-bf16.safetensors") + " " +
                              recording("v41-tiny-fp8.safetensors"));
  EXPECT_EQ(passed.status, 0) << passed.output;
  for (const char* kind : {"qr", "window_kv", "index_score", "candidates", "topk_idxs", "o_lora", "out", "passed"}) {
    EXPECT_NE(passed.output.find(kind), std::string::npos) << kind;
  }
  const Outcome failed = skim("verify --tolerance 1e-9 " + recording("v41-tiny-fp8.safetensors"));
  EXPECT_EQ(failed.status, 1);
  EXPECT_NE(failed.output.find("FAILED: call "), std::string::npos) << failed.output;
}

TEST_F(CommandLine, VerifyWritesJsonAPageAndBothSidesOfWhatFails) {
  const Outcome outcome = skim("verify --json --tolerance 1e-9 --html " + path("page.html") + " --dump " +
                               path("sides.safetensors") + " " + recording("v41-tiny-fp8.safetensors"));
  EXPECT_EQ(outcome.status, 1);
  const nlohmann::json report = nlohmann::json::parse(outcome.output);
  EXPECT_FALSE(report.at("passed"));
  EXPECT_EQ(report.at("first_failure").at("tensor"), report.at("failing").at(0).at("name"));
  EXPECT_EQ(report.at("kinds").size(), 14u);
  const SafetensorsFile sides = SafetensorsFile::open(path("sides.safetensors"));
  EXPECT_EQ(sides.tensors().size(), 2 * report.at("failing").size());
  std::ifstream page(path("page.html"));
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  for (const char* words : {"<!DOCTYPE html>", "<svg", "tokens across", "</html>"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words;
  }
  expect_error(1, "verify --html " + path("page.html") + " a b", "--html and --dump take one FILE, found 2");
}

TEST_F(CommandLine, VerifyTakesWeightsFromAModel) {
  const std::string file = recording("v41-tiny-bf16.safetensors");
  EXPECT_EQ(skim("verify --model " + file + " " + file).status, 0);
  EXPECT_EQ(skim("verify --model " + recording("v41-tiny-fp8.safetensors") + " " + file).status, 1);
}

TEST_F(CommandLine, RunPrintsJson) {
  const Outcome outcome = skim("run --model synthetic:v41-tiny --layers 0,2,3 --tokens 9 --decode 2 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const nlohmann::json report = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(report.at("prefill_tokens"), 9);
  ASSERT_EQ(report.at("layers").size(), 3u);
  EXPECT_EQ(report.at("layers").at(1).at("role"), "full");
  EXPECT_EQ(report.at("layers").at(2).at("selected_last"), 5);  // 11 tokens at ratio 2
}

TEST_F(CommandLine, SoakFindsNoDifferenceWithAnyKernelSet) {
  for (const KernelSet& set : kernel_sets()) {
    if (!is_available(set)) continue;
    const Outcome outcome = skim("soak --ops 300 --seed 7 --kernels " + std::string(set.name));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(outcome.output.rfind("seed 7\n", 0), 0u) << outcome.output;
    for (const char* words : {"synthetic:v41-tiny, ", "synthetic:v32-tiny, ", "synthetic:v4-tiny, ", ": 300 operations",
                              "\nno difference\n"}) {
      EXPECT_NE(outcome.output.find(words), std::string::npos) << words << "\n" << outcome.output;
    }
  }
}

TEST_F(CommandLine, SoakPrintsJson) {
  const Outcome outcome = skim("soak --model synthetic:v32-tiny --seconds 1 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const nlohmann::json report = nlohmann::json::parse(outcome.output.substr(outcome.output.find('\n')));
  EXPECT_EQ("seed " + report.at("seed").dump(), outcome.output.substr(0, outcome.output.find('\n')));
  ASSERT_EQ(report.at("models").size(), 1u);
  const nlohmann::json& model = report.at("models").at(0);
  std::int64_t operations = 0;
  for (const auto& [kind, count] : model.at("operations").items()) operations += count.get<std::int64_t>();
  EXPECT_EQ(model.at("last_operation"), operations);
  EXPECT_GT(operations, 0);
  EXPECT_TRUE(model.at("difference").is_null());
  EXPECT_GE(model.at("seconds"), 1);
}

TEST_F(CommandLine, WhereDecodeBeginsDoesNotChangeTheOutput) {
  for (const auto& [model, layers] : {std::pair{"v41-tiny", 7u}, {"v32-tiny", 2u}}) {
    SCOPED_TRACE(model);
    const std::string run = std::string("--model synthetic:") + model;
    const auto whole = outputs(run + " --tokens 20");
    ASSERT_EQ(whole.size(), layers);
    EXPECT_TRUE(whole.contains("layer.0.out [20, 128]"));
    for (const char* split : {" --tokens 7 --decode 13", " --tokens 19 --decode 1", " --tokens 0 --decode 20"}) {
      EXPECT_TRUE(outputs(run + split) == whole) << split;
    }
  }
}

TEST_F(CommandLine, V32RunsInEveryLayer) {
  const std::string run = "run --model synthetic:v32-tiny --tokens 20 --decode 3";
  const Outcome table = skim(run);
  EXPECT_EQ(table.status, 0);
  for (const char* words : {"20 tokens prefilled, 3 decoded", "    0  full         1", "    1  full         1"}) {
    EXPECT_NE(table.output.find(words), std::string::npos) << words << "\n" << table.output;
  }
  const Outcome outcome = skim(run + " --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const nlohmann::json report = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(report.at("prefill_tokens"), 20);
  EXPECT_EQ(report.at("decode_tokens"), 3);
  ASSERT_EQ(report.at("layers").size(), 2u);
  for (const nlohmann::json& layer : report.at("layers")) {
    EXPECT_EQ(layer.at("role"), "full");
    EXPECT_EQ(layer.at("ratio"), 1);
    EXPECT_EQ(layer.at("selected_last"), 8);
    EXPECT_EQ(layer.at("cache_bytes"), 32 * (128 + 4 + 16 * 2 + 64 + 4));  // rows come in powers of two
  }
}

/// v32-tiny was trained for 16 tokens.
TEST_F(CommandLine, TheContextDecidesOnYarn) {
  const std::string run = "--model synthetic:v32-tiny --tokens 10 --decode 3";
  const auto plain = outputs(run + " --context 16"), stretched = outputs(run + " --context 17");
  EXPECT_TRUE(outputs(run + " --context 13") == plain);
  EXPECT_FALSE(stretched == plain);
  EXPECT_TRUE(outputs(run + " --context 100000") == stretched);
  const std::string longer = "--model synthetic:v32-tiny --tokens 17";
  EXPECT_TRUE(outputs(longer) == outputs(longer + " --context 40"));
  expect_error(1, "run " + run + " --context 12", "--context 12: fewer than the 13 tokens to run");
  expect_error(2, "run " + run + " --context 0", "--context");
}

/// FAULTS 105: unless told otherwise, a run is one in the model's own context, and says so.
TEST_F(CommandLine, Fault105TheContextIsTheModelsOwn) {
  const std::string run = "--model synthetic:v32-tiny --tokens 10 --decode 3";
  EXPECT_TRUE(outputs(run) == outputs(run + " --context 4096"));
  const auto expect_line = [](const std::string& arguments, const std::string& line) {
    const Outcome outcome = skim(arguments);
    EXPECT_NE(outcome.output.find(line), std::string::npos) << outcome.output;
  };
  expect_line("run " + run, "; context 4096, rope_theta 10000, YaRN on");
  expect_line("run " + run + " --context 16", "; context 16, rope_theta 10000, YaRN off");
  expect_line("run --model synthetic:v41-tiny --tokens 10",
              "; context 4096, compress_rope_theta 160000, rope_theta 10000, YaRN on");
  const nlohmann::json report = nlohmann::json::parse(skim("run --json " + run).output);
  EXPECT_EQ(report.at("context"), 4096);
  EXPECT_EQ(report.at("yarn"), true);
  EXPECT_EQ(report.at("theta").at("rope_theta"), 10000);
}

TEST_F(CommandLine, RunReadsHiddenStatesFromAFile) {
  // An output of one run has the shape of an input of the next.
  ASSERT_EQ(skim("run --model synthetic:v41-tiny --layers 0 --tokens 12 --output " + path("x.safetensors")).status, 0);
  const SafetensorsFile file = SafetensorsFile::open(path("x.safetensors"));
  const Tensor x = file.tensor("layer.0.out");
  const TensorToWrite renamed[] = {{"x", x.dtype, x.shape, x.bytes}};
  write_safetensors(path("in.safetensors"), renamed, {});
  const std::string run = "run --model synthetic:v41-tiny --layers 1 --input " + path("in.safetensors");
  const Outcome all = skim(run + " --json");
  ASSERT_EQ(all.status, 0) << all.output;
  EXPECT_EQ(nlohmann::json::parse(all.output).at("prefill_tokens"), 12);
  EXPECT_EQ(skim(run + " --tokens 10 --decode 2").status, 0);
  expect_error(1, run.substr(0) + " --tokens 10 --decode 3", "12 rows, expected 10 to prefill and 3 to decode");
  expect_error(1, "run --model synthetic:v41-tiny --layers 1 --input " + path("x.safetensors"),
               "neither layer.1.x nor x");
}

TEST_F(CommandLine, InfoDescribesACheckpoint) {
  const Outcome flash = skim("info synthetic:v41-flash");
  EXPECT_EQ(flash.status, 0);
  for (const char* words : {"890 bytes per token", "candidate source", "reindex  ratio 1", "candidates of layer 20",
                            "mtp.2.attn.wq_a.weight", "at 1M"}) {
    EXPECT_NE(flash.output.find(words), std::string::npos) << words;
  }
  const Outcome plain = skim("info " + recording("v41-tiny-bf16.safetensors"));
  EXPECT_EQ(plain.status, 0) << plain.output;
}

TEST_F(CommandLine, InfoSaysWhatTheMachineRuns) {
  const Outcome outcome = skim("info --machine");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("used unless another is asked for"), std::string::npos) << outcome.output;
  for (const KernelSetInfo& set : kernel_set_infos()) {
    EXPECT_NE(outcome.output.find(set.name), std::string::npos) << set.name;
    EXPECT_NE(outcome.output.find(set.why_not), std::string::npos) << set.name;
    if (!set.why_not.empty()) expect_error(1, "run --model synthetic:v41-tiny --kernels " + set.name, set.name);
  }
}

TEST_F(CommandLine, InfoDescribesV32) {
  const auto expect_words = [](const std::string& model, const std::vector<std::string>& words) {
    const Outcome outcome = skim("info " + model);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    for (const std::string& word : words) EXPECT_NE(outcome.output.find(word), std::string::npos) << word;
    EXPECT_EQ(outcome.output.find("problem"), std::string::npos) << outcome.output;
  };
  expect_words("synthetic:v32", {"deepseek_v32: 61 layers", "YaRN beyond a context of 4096", "48068 bytes per token",
                                 "layer 60  full     ratio 1; 19 tensors", "scales ue8m0", "index: 64 heads of 128",
                                 "model.layers.60.self_attn.indexer.wk.weight_scale_inv"});
  expect_words(recording("v32-tiny-fp8.safetensors"),
               {"deepseek_v32: 1 layers", "dim 256", "top 8", "YaRN beyond a context of 16", "328 bytes per token",
                "19 tensors", "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"});
}

TEST_F(CommandLine, VerifyHoldsForV32) {
  for (const char* kernels : {"reference", "portable"}) {
    const Outcome outcome = skim(std::string("verify --kernels ") + kernels + " " +
                                 recording("v32-tiny-bf16.safetensors") + " " + recording("v32-tiny-fp8.safetensors"));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    for (const char* kind : {"qr", "kv_new", "k_pe_new", "index_k_scale_new", "topk_idxs", "out", "passed"}) {
      EXPECT_NE(outcome.output.find(kind), std::string::npos) << kind;
    }
  }
}

/// One field of a recording's configuration is not that of its tensors, or of any model.
TEST_F(CommandLine, ARecordingWithAnotherConfigurationIsRefused) {
  const SafetensorsFile file = SafetensorsFile::open(recording("v32-tiny-fp8.safetensors"));
  const auto refused = [&](const std::string& field, const nlohmann::json& value, const std::string& words) {
    std::map<std::string, std::string> metadata = file.metadata();
    nlohmann::json config = nlohmann::json::parse(metadata.at("config"));
    config[field] = value;
    metadata["config"] = config.dump();
    std::vector<TensorToWrite> tensors;
    std::vector<Tensor> held;
    for (const TensorInfo& info : file.tensors()) {
      held.push_back(file.tensor(info.name));
      tensors.push_back({info.name, info.dtype, info.shape, held.back().bytes});
    }
    write_safetensors(path("case.safetensors"), tensors, metadata);
    expect_error(1, "verify " + path("case.safetensors"), words);
  };
  refused("kv_lora_rank", 64, "kv_lora_rank is 64, expected a multiple of 128");
  refused("kv_lora_rank", 256, "kv_a_layernorm.weight: shape [128], expected [256]");
  refused("index_head_dim", 96, "index_head_dim is 96, expected a power of two");
  refused("index_n_heads", 8, "indexer.weights_proj.weight: shape [4, 256], expected [8, 256]");
  refused("v_head_dim", "32", "v_head_dim is \"32\", expected an integer from 1");
  refused("scale_fmt", "float32", "scale_fmt is \"float32\", expected \"ue8m0\" or null");
  refused("q_lora_rank", nullptr, "q_lora_rank is null, expected an integer from 1");
  refused("max_seq_len", 41, "more than max_seq_len 41");
  refused("max_seq_len", nullptr, "max_seq_len is null");
  refused("n_layers", 0, "n_layers is 0");
}

}  // namespace
}  // namespace skim

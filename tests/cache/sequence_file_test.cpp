// Sequences in files: what is loaded goes on bit for bit, what is damaged or foreign is refused, and a kill loses
// nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "attention/stack.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/expect_error.hpp"

namespace skim::test {
namespace {

namespace fs = std::filesystem;

CacheOptions options(std::int64_t rollback = 0, std::int64_t page_rows = 16) {
  return {.max_tokens = 256, .rollback = rollback, .page_rows = page_rows, .threads = 1};
}

std::vector<char> read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const fs::path& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class SequenceFile : public testing::Test {
 protected:
  fs::path file(const std::string& name = "a.seq") const { return folder_.path() / name; }
  static Model model(const Config& config, std::uint64_t seed = 0, std::vector<int> layers = {}) {
    return Model(Checkpoint::synthetic(config, seed), {.layers = std::move(layers)});
  }
  /// Saves "a" after `tokens` tokens.
  void save(const Model& model, std::int64_t tokens, const CacheOptions& cache_options) const {
    Stack stack(model, cache_options);
    stack.add("a");
    if (tokens > 0) stack.feed({{"a", tokens}});
    stack.cache().save(stack.id("a"), file());
  }
  std::string refused(const Model& model, const std::vector<std::string>& words, ErrorCode code = ErrorCode::bad_file,
                      const CacheOptions& cache_options = options()) const {
    KvCache cache(model, cache_options);
    const std::string message = expect_error(code, words, [&] { cache.load(file()); });
    EXPECT_EQ(cache.bytes(), 0);
    return message;
  }

  TemporaryFolder folder_;
};

TEST_F(SequenceFile, ALoadedSequenceGoesOnAsIfItHadNeverBeenAway) {
  for (const std::string& name : small_config_names()) {
    const Model same = model(small_config(name));
    for (const std::int64_t tokens : {0, 1, 5, 7, 8, 9, 31, 32, 70}) {
      SCOPED_TRACE(name + " " + std::to_string(tokens));
      save(same, tokens, options(3));
      for (const CacheOptions& other : {options(3), options(0, 5), options(9, 64)}) {
        Stack stack(same, other);
        stack.adopt("a", stack.cache().load(file()));
        EXPECT_EQ(stack.cache().length(stack.id("a")), tokens);
        stack.feed({{"a", 1}});
        stack.feed({{"a", 23}});
        const Outcome whole = run_alone(same, other, "a", {tokens + 24});
        EXPECT_EQ(stack.outcome("a").state, whole.state);
        for (const auto& [layer, out] : stack.outcome("a").out) {
          const std::vector<bf16>& all = whole.out.at(layer);
          EXPECT_TRUE(std::equal(out.begin(), out.end(), all.end() - static_cast<std::ptrdiff_t>(out.size())));
        }
      }
    }
  }
}

TEST_F(SequenceFile, ALoadedSequenceClaimsNoMoreThanItCanRestore) {
  const Model same = model(small_config("tiny"));
  save(same, 60, options(4));
  KvCache wide(same, options(20)), narrow(same, options(0));
  const SequenceId a = wide.load(file()), b = narrow.load(file());
  EXPECT_EQ(wide.restorable(a).back().last, 60);
  EXPECT_GE(wide.restorable(a)[1].first, 60 - 5);
  EXPECT_GE(narrow.restorable(b)[1].first, 59);
  for (const LengthRange& range : wide.restorable(a)) {
    for (std::int64_t tokens = range.first; tokens <= range.last; ++tokens) {
      Stack stack(same, options(20));
      stack.adopt("a", stack.cache().load(file()));
      stack.cache().truncate(stack.id("a"), tokens);
      stack.feed({{"a", 9}});
      EXPECT_EQ(stack.outcome("a").state, run_alone(same, options(20), "a", {tokens + 9}).state) << tokens;
    }
  }
}

TEST_F(SequenceFile, ASequenceThatWasLongerBeforeKeepsItsUnfinishedGroup) {
  const Model same = model(one_layer(2));
  Stack stack(same, options());
  stack.add("a");
  stack.feed({{"a", 8}});
  stack.cache().truncate(stack.id("a"), 4);
  stack.feed({{"a", 1}});
  stack.cache().save(stack.id("a"), file());
  stack.adopt("b", stack.cache().load(file()));
  EXPECT_EQ(state_bytes(stack.cache(), stack.id("b")), state_bytes(stack.cache(), stack.id("a")));
}

TEST_F(SequenceFile, PagesStayInTheFileUntilTheyAreWritten) {
  const Model same = model(small_config("v32_tiny"));
  save(same, 70, options());
  Stack stack(same, options());
  stack.adopt("a", stack.cache().load(file()));
  fs::remove(file());
  EXPECT_EQ(stack.cache().bytes(), 0);  // no rings
  stack.feed({{"a", 1}});
  const std::int64_t row = 128 + 4 + 2 * 16 + 64 + 4;  // latent with its scale and key, index key with its scale
  EXPECT_EQ(stack.cache().bytes(), 2 * 16 * row);      // one page for each kind and layer
  EXPECT_EQ(stack.outcome("a").state, run_alone(same, options(), "a", {71}).state);
}

TEST_F(SequenceFile, AnotherModelIsRefused) {
  const Config config = small_config("tiny");
  save(model(config), 20, options());
  refused(model(config, 1), {"fingerprint", "weights"});
  refused(model(config, 0, {0, 1, 2}), {"fingerprint"});
  refused(model(small_config("v32_tiny")), {"model", "deepseek_v41", "deepseek_v32"});
  V41Config theta = std::get<V41Config>(config);
  theta.rope_theta = 2e4;
  refused(model(theta), {"fingerprint", "configuration"});
  CacheOptions shorter = options();
  shorter.max_tokens = 19;
  refused(model(config), {"20 tokens", "max_tokens is 19"}, ErrorCode::limit_exceeded, shorter);
}

TEST_F(SequenceFile, AnotherRotationIsRefused) {
  const Model v32 = model(small_config("v32_tiny"));  // YaRN beyond 16 tokens
  save(v32, 10, options());
  CacheOptions plain = options();
  plain.max_tokens = 16;
  refused(v32, {"yarn is 'on'", "'off'"}, ErrorCode::bad_file, plain);
}

TEST_F(SequenceFile, AnythingElseIsRefusedByName) {
  const Model same = model(small_config("v32_tiny"));
  refused(same, {"a.seq"}, ErrorCode::io);
  write_safetensors(file(), {}, {{"format", "skim-sequence/2"}});
  refused(same, {"format is 'skim-sequence/2'", "skim-sequence/1"});
  write_safetensors(file(), {}, {});
  refused(same, {"metadata has no 'format'"});
  write(file(), {});
  refused(same, {"a.seq"});
}

TEST_F(SequenceFile, DamageAnywhereIsFound) {
  V41Config config = one_layer(2);
  const Model same = model(config);
  save(same, 11, options());
  const std::vector<char> good = read(file());
  KvCache cache(same, options());
  const auto is_refused = [&](const std::vector<char>& bytes) {
    write(file(), bytes);
    try {
      cache.load(file());
    } catch (const Error& error) {
      return error.code() == ErrorCode::bad_file || error.code() == ErrorCode::limit_exceeded;
    }
    return false;
  };
  for (std::size_t i = 0; i < good.size(); i += i < 2000 ? 1 : 13) {
    std::vector<char> bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    ASSERT_TRUE(is_refused(bad)) << "byte " << i << " of " << good.size();
  }
  for (std::size_t size = 0; size < good.size(); size += 101) {
    ASSERT_TRUE(is_refused({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)})) << size << " bytes";
  }
  std::vector<char> longer = good;
  longer.push_back(0);
  EXPECT_TRUE(is_refused(longer));
  EXPECT_EQ(cache.bytes(), 0);
  write(file(), good);
  EXPECT_NO_THROW(cache.load(file()));
}

TEST_F(SequenceFile, FilesThatCannotBeWrittenLeaveEverythingAsItWas) {
  const Model same = model(small_config("tiny"));
  Stack stack(same, options());
  stack.add("a");
  stack.feed({{"a", 20}});
  KvCache& cache = stack.cache();
  expect_error(ErrorCode::io, {"nowhere"}, [&] { cache.save(stack.id("a"), file("nowhere/a.seq")); });
  Batch batch = cache.begin({{stack.id("a"), 1}});
  expect_error(ErrorCode::wrong_order, {"batch"}, [&] { cache.save(stack.id("a"), file()); });
  EXPECT_FALSE(fs::exists(file()));
}

/// A process that saves two sequences of different lengths over one another until it is killed.
[[noreturn]] void save_forever(KvCache& cache, SequenceId a, SequenceId b, const fs::path& path) {
  for (;;) {
    cache.save(a, path);
    cache.save(b, path);
  }
}

TEST_F(SequenceFile, AKillAtAnyMomentLeavesOneWholeFile) {
  const Model same = model(small_config("v32_odd"));
  Stack stack(same, options());
  for (const char* name : {"a", "b"}) stack.add(name);
  stack.feed({{"a", 120}, {"b", 60}});
  stack.cache().save(stack.id("a"), file());
  std::mt19937 random(1);
  for (int kill_number = 0; kill_number < 100; ++kill_number) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_forever(stack.cache(), stack.id("a"), stack.id("b"), file());
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(100, 20'000)(random)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const SequenceId loaded = stack.cache().load(file());
    const std::int64_t length = stack.cache().length(loaded);
    ASSERT_TRUE(length == 120 || length == 60) << length;
    EXPECT_EQ(state_bytes(stack.cache(), loaded), state_bytes(stack.cache(), stack.id(length == 120 ? "a" : "b")));
    stack.cache().remove(loaded);
  }
}

}  // namespace
}  // namespace skim::test

// Claims: handles may be freed in any order, often, and used by many threads.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <thread>

#include "capi/fixture.hpp"
#include "cases.hpp"

namespace skim::test {
namespace {

// The address sanitizer keeps freed memory for a while, and finds what is lost by itself.
#ifdef __SANITIZE_ADDRESS__
constexpr int kCycles = 200;
constexpr bool kMeasured = false;
#else
constexpr int kCycles = 10'000;
constexpr bool kMeasured = true;
#endif

std::int64_t resident_bytes() {
  std::int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class Handles : public CApi {
 protected:
  void stays_where_it_was(const std::function<void()>& cycle) {
    for (int i = 0; i < kCycles / 10; ++i) cycle();
    const std::int64_t before = resident_bytes();
    for (int i = 0; i < kCycles; ++i) cycle();
    if (kMeasured) {
      EXPECT_LT(resident_bytes() - before, 256 << 10);
    }
  }
};

TEST_F(Handles, AreFreedInAnyOrder) {
  std::array<int, 4> order = {0, 1, 2, 3};
  do {
    SCOPED_TRACE(testing::PrintToString(order));
    skim_checkpoint* checkpoint = nullptr;
    skim_model* model = nullptr;
    skim_cache* cache = nullptr;
    ASSERT_TRUE(ok(skim_checkpoint_synthetic("v32-tiny", 0, &checkpoint, &error_), error_));
    ASSERT_TRUE(ok(skim_model_create(checkpoint, nullptr, &model, &error_), error_));
    const skim_cache_options options = small_cache();
    ASSERT_TRUE(ok(skim_cache_create(model, &options, &cache, &error_), error_));
    skim_batch* batch = new_batch(3, cache, new_sequence(cache));
    bool batch_lives = true;
    for (const int which : order) {
      if (which == 0) skim_checkpoint_free(checkpoint);
      if (which == 1) skim_model_free(model);
      if (which == 2) skim_cache_free(cache);
      if (which == 3) {
        forward(batch, 0);  // works whatever has been freed
        EXPECT_TRUE(ok(skim_batch_commit(batch, &error_), error_));
        skim_batch_free(batch);
        batch_lives = false;
      }
    }
    EXPECT_FALSE(batch_lives);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(Handles, ManyCheckpointsLeaveNothing) {
  stays_where_it_was([&] {
    skim_checkpoint* checkpoint = nullptr;
    ASSERT_EQ(skim_checkpoint_open(case_path("v32-tiny-bf16").c_str(), &checkpoint, &error_), SKIM_OK);
    skim_checkpoint_free(checkpoint);
  });
}

TEST_F(Handles, ManyModelsLeaveNothing) {
  const std::int32_t layer = 0;
  const skim_model_options options{sizeof options, &layer, 1, nullptr, 0};
  stays_where_it_was([&] {
    skim_model* model = nullptr;
    ASSERT_EQ(skim_model_create(checkpoint_, &options, &model, &error_), SKIM_OK);
    skim_model_free(model);
  });
}

TEST_F(Handles, ManyCachesLeaveNothing) {
  stays_where_it_was([&] {
    skim_cache* cache = new_cache();
    new_sequence(cache);
    skim_cache_free(cache);
  });
}

TEST_F(Handles, ManyBatchesLeaveNothing) {
  stays_where_it_was([&] { skim_batch_free(new_batch(9)); });
}

TEST_F(Handles, ManyErrorsLeaveNothing) {
  stays_where_it_was([&] {
    skim_checkpoint* checkpoint = nullptr;
    ASSERT_EQ(skim_checkpoint_synthetic("v99", 0, &checkpoint, &error_), SKIM_INVALID_ARGUMENT);
  });
}

TEST_F(Handles, FourThreadsShareAModel) {
  using Bits = std::vector<std::uint16_t>;
  std::array<skim_batch*, 4> batches{};
  for (skim_batch*& batch : batches) batch = new_batch(10, cache_, new_sequence(cache_));
  const Bits x = states(0, 10);
  std::array<Bits, 4> outs;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    threads.emplace_back([&, i] {
      outs[i].resize(x.size());
      const skim_const_rows in_rows = rows(x);
      const skim_rows out_rows = rows(outs[i]);
      for (const int layer : layers_) {
        EXPECT_EQ(skim_batch_forward(batches[i], layer, &in_rows, &out_rows, nullptr), SKIM_OK);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Bits expected = feed(cache_, sequence_, 10);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(outs[i], expected);
    skim_batch_free(batches[i]);
  }
}

}  // namespace
}  // namespace skim::test

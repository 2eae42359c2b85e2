// Claims: whichever allocation is refused, the call that needed it returns SKIM_OUT_OF_MEMORY and can be repeated.
#include <array>

#include "capi/fixture.hpp"
#include "refuser.hpp"

namespace skim::test {
namespace {

class AllocationInC : public CApi {
 protected:
  /// Repeats `call`, refusing its first allocation, then its second and so on, until it succeeds.
  template <class Call>
  void survives(const Call& call) {
    for (std::int64_t refused = 0;; ++refused) {
      refuser = {true, refused, false};
      const int code = call();
      refuser.on = false;
      if (!refuser.refused) {
        EXPECT_TRUE(ok(code, error_));
        EXPECT_GT(refused, 0);
        return;
      }
      ASSERT_EQ(code, SKIM_OUT_OF_MEMORY) << "allocation " << refused << ": " << error_.message;
      ASSERT_NE(std::string(error_.message).find("out of memory"), std::string::npos) << error_.message;
    }
  }
};

TEST_F(AllocationInC, IsReportedByEveryCallThatNeedsIt) {
  skim_checkpoint* checkpoint = nullptr;
  skim_model* model = nullptr;
  skim_cache* cache = nullptr;
  skim_batch* batch = nullptr;
  std::int64_t sequence = -1, child = -1;
  survives([&] { return skim_checkpoint_synthetic("v32-tiny", 0, &checkpoint, &error_); });
  survives([&] { return skim_model_create(checkpoint, nullptr, &model, &error_); });
  const skim_cache_options options = small_cache();
  survives([&] { return skim_cache_create(model, &options, &cache, &error_); });
  survives([&] { return skim_cache_add(cache, &sequence, &error_); });
  const skim_batch_entry entry{sequence, 3};
  std::array<char, 64> buffer{};
  skim_text problem{buffer.data(), buffer.size(), 0};
  survives([&] { return skim_cache_admission_problem(cache, &entry, 1, &problem, &error_); });
  survives([&] { return skim_batch_begin(cache, &entry, 1, &batch, &error_); });
  const std::vector<std::uint16_t> x = states(0, 3);
  std::vector<std::uint16_t> out(x.size());
  const skim_const_rows in_rows = rows(x);
  const skim_rows out_rows = rows(out);
  for (const int layer : layers_) {
    survives([&] { return skim_batch_forward(batch, layer, &in_rows, &out_rows, &error_); });
  }
  ASSERT_TRUE(ok(skim_batch_commit(batch, &error_), error_));
  skim_batch_free(batch);
  std::size_t count = 0;
  survives([&] { return skim_cache_restorable(cache, sequence, nullptr, 0, &count, &error_); });
  survives([&] { return skim_cache_fork(cache, sequence, 2, &child, &error_); });
  EXPECT_EQ(out, feed(cache_, sequence_, 3));
  skim_cache_free(cache);
  skim_model_free(model);
  skim_checkpoint_free(checkpoint);
}

}  // namespace
}  // namespace skim::test

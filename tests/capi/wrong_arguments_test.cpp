// Claims: whatever wrong argument is passed, it is named, and nothing has changed.
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "capi/fixture.hpp"
#include "cases.hpp"

namespace skim::test {
namespace {

using Call = std::function<int(skim_error*)>;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

class WrongArguments : public CApi {
 protected:
  WrongArguments()
      : batch_(new_batch(2)),
        x_(states(0, 2)),
        out_(x_.size()),
        x_rows_(rows(std::as_const(x_))),
        out_rows_(rows(out_)) {}
  ~WrongArguments() override { skim_batch_free(batch_); }

  static void refused(const std::string& word, const Call& call, int code = SKIM_INVALID_ARGUMENT) {
    EXPECT_TRUE(refuses_in_c(call, code, word));
  }
  void refused_options(const std::string& word, void (*change)(skim_cache_options&)) {
    skim_cache_options options = small_cache();
    change(options);
    skim_cache* cache = cache_;  // must become null
    refused(word, [&](auto* e) { return skim_cache_create(model_, &options, &cache, e); });
    EXPECT_EQ(cache, nullptr);
  }
  void refused_x(const std::string& word, const std::function<void(skim_const_rows&)>& change) {
    skim_const_rows x = x_rows_;
    change(x);
    refused(word, [&](auto* e) { return skim_batch_forward(batch_, 0, &x, &out_rows_, e); });
  }
  void refused_out(const std::string& word, const std::function<void(skim_rows&)>& change) {
    skim_rows out = out_rows_;
    change(out);
    refused(word, [&](auto* e) { return skim_batch_forward(batch_, 0, &x_rows_, &out, e); });
  }

  skim_batch* batch_;
  std::vector<std::uint16_t> x_, out_;
  skim_const_rows x_rows_;
  skim_rows out_rows_;
  std::int64_t number_ = -7;
  std::size_t count_ = 7;
  std::int32_t verdict_ = 7;
};

TEST_F(WrongArguments, NullHandlesAreNamed) {
  skim_config config{};
  skim_layer_role role{};
  skim_cache_cost cost{};
  skim_model_info info{};
  skim_model* model = nullptr;
  skim_cache* cache = nullptr;
  skim_batch* batch = nullptr;
  skim_text text{};
  const skim_batch_entry entry{sequence_, 1};
  refused("checkpoint is NULL", [&](auto* e) { return skim_checkpoint_config(nullptr, &config, e); });
  refused("checkpoint is NULL", [&](auto* e) { return skim_checkpoint_layer_role(nullptr, 0, &role, e); });
  refused("checkpoint is NULL", [&](auto* e) { return skim_checkpoint_cache_cost(nullptr, nullptr, 0, 0, &cost, e); });
  refused("checkpoint is NULL", [&](auto* e) { return skim_model_create(nullptr, nullptr, &model, e); });
  refused("model is NULL", [&](auto* e) { return skim_model_get_info(nullptr, &info, e); });
  refused("model is NULL", [&](auto* e) { return skim_model_layers(nullptr, nullptr, 0, &count_, e); });
  refused("model is NULL", [&](auto* e) { return skim_cache_create(nullptr, nullptr, &cache, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_add(nullptr, &number_, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_remove(nullptr, 0, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_length(nullptr, 0, &number_, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_fork(nullptr, 0, 0, &number_, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_truncate(nullptr, 0, 0, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_restorable(nullptr, 0, nullptr, 0, &count_, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_save(nullptr, 0, "x", e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_load(nullptr, "x", &number_, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_admission_problem(nullptr, &entry, 1, &text, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_bytes(nullptr, &number_, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_workspace_bytes(nullptr, &number_, e); });
  refused("cache is NULL", [&](auto* e) { return skim_batch_begin(nullptr, &entry, 1, &batch, e); });
  refused("batch is NULL", [&](auto* e) { return skim_batch_tokens(nullptr, &number_, e); });
  refused("batch is NULL", [&](auto* e) { return skim_batch_forward(nullptr, 0, &x_rows_, &out_rows_, e); });
  refused("batch is NULL", [&](auto* e) { return skim_batch_commit(nullptr, e); });
  refused("batch is NULL", [&](auto* e) { return skim_batch_commit_sequence(nullptr, 0, 0, e); });
  EXPECT_EQ(std::pair(number_, count_), std::pair(std::int64_t{-7}, std::size_t{7}));  // untouched
  skim_checkpoint_free(nullptr);
  skim_model_free(nullptr);
  skim_cache_free(nullptr);
  skim_batch_free(nullptr);
}

TEST_F(WrongArguments, NullOutputsAreNamed) {
  const skim_batch_entry entry{sequence_, 1};
  std::size_t* const no_count = nullptr;
  refused("count is NULL", [&](auto* e) { return skim_kernel_set_count(no_count, e); });
  refused("info is NULL", [&](auto* e) { return skim_kernel_set_info(0, nullptr, e); });
  refused("checkpoint is NULL", [&](auto* e) { return skim_checkpoint_open("x", nullptr, e); });
  refused("checkpoint is NULL", [&](auto* e) { return skim_checkpoint_synthetic("v32-tiny", 0, nullptr, e); });
  refused("config is NULL", [&](auto* e) { return skim_checkpoint_config(checkpoint_, nullptr, e); });
  refused("role is NULL", [&](auto* e) { return skim_checkpoint_layer_role(checkpoint_, 0, nullptr, e); });
  refused("cost is NULL", [&](auto* e) { return skim_checkpoint_cache_cost(checkpoint_, nullptr, 0, 0, nullptr, e); });
  refused("model is NULL", [&](auto* e) { return skim_model_create(checkpoint_, nullptr, nullptr, e); });
  refused("info is NULL", [&](auto* e) { return skim_model_get_info(model_, nullptr, e); });
  refused("count is NULL", [&](auto* e) { return skim_model_layers(model_, nullptr, 0, nullptr, e); });
  refused("layers is NULL", [&](auto* e) { return skim_model_layers(model_, nullptr, 1, &count_, e); });
  refused("cache is NULL", [&](auto* e) { return skim_cache_create(model_, nullptr, nullptr, e); });
  refused("sequence is NULL", [&](auto* e) { return skim_cache_add(cache_, nullptr, e); });
  refused("tokens is NULL", [&](auto* e) { return skim_cache_length(cache_, sequence_, nullptr, e); });
  refused("child is NULL", [&](auto* e) { return skim_cache_fork(cache_, sequence_, 0, nullptr, e); });
  refused("count is NULL", [&](auto* e) { return skim_cache_restorable(cache_, sequence_, nullptr, 0, nullptr, e); });
  refused("ranges is NULL", [&](auto* e) { return skim_cache_restorable(cache_, sequence_, nullptr, 1, &count_, e); });
  refused("sequence is NULL", [&](auto* e) { return skim_cache_load(cache_, "x", nullptr, e); });
  refused("problem is NULL", [&](auto* e) { return skim_cache_admission_problem(cache_, &entry, 1, nullptr, e); });
  refused("bytes is NULL", [&](auto* e) { return skim_cache_bytes(cache_, nullptr, e); });
  refused("bytes is NULL", [&](auto* e) { return skim_cache_workspace_bytes(cache_, nullptr, e); });
  refused("batch is NULL", [&](auto* e) { return skim_batch_begin(cache_, &entry, 1, nullptr, e); });
  refused("tokens is NULL", [&](auto* e) { return skim_batch_tokens(batch_, nullptr, e); });
  refused("passed is NULL", [&](auto* e) { return skim_verify("x", nullptr, nullptr, nullptr, e); });
  skim_text text{nullptr, 1, 0};
  refused("problem is NULL", [&](auto* e) { return skim_cache_admission_problem(cache_, &entry, 1, &text, e); });
  refused("report is NULL", [&](auto* e) { return skim_verify("x", nullptr, &verdict_, &text, e); });
  // No sequence was made on the way.
  EXPECT_EQ(new_sequence(cache_), sequence_ + 1);
}

TEST_F(WrongArguments, NullTextsAndUnknownNamesAreNamed) {
  skim_checkpoint* checkpoint = checkpoint_;
  refused("path is NULL", [&](auto* e) { return skim_checkpoint_open(nullptr, &checkpoint, e); });
  EXPECT_EQ(checkpoint, nullptr);
  refused("name is NULL", [&](auto* e) { return skim_checkpoint_synthetic(nullptr, 0, &checkpoint, e); });
  refused("v99", [&](auto* e) { return skim_checkpoint_synthetic("v99", 0, &checkpoint, e); });
  refused("path is NULL", [&](auto* e) { return skim_cache_save(cache_, sequence_, nullptr, e); });
  refused("path is NULL", [&](auto* e) { return skim_cache_load(cache_, nullptr, &number_, e); });
  refused("path is NULL", [&](auto* e) { return skim_verify(nullptr, nullptr, &verdict_, nullptr, e); });
  const char* const nowhere = "/nonexistent/x.safetensors";
  refused(
      "/nonexistent", [&](auto* e) { return skim_checkpoint_open(nowhere, &checkpoint, e); }, SKIM_IO);
  refused(
      "/nonexistent", [&](auto* e) { return skim_cache_load(cache_, nowhere, &number_, e); }, SKIM_IO);
  refused(
      "/nonexistent", [&](auto* e) { return skim_verify(nowhere, nullptr, &verdict_, nullptr, e); }, SKIM_IO);
  skim_model_options options{sizeof options, nullptr, 0, "abacus", 0};
  skim_model* model = model_;
  refused(
      "abacus", [&](auto* e) { return skim_model_create(checkpoint_, &options, &model, e); }, SKIM_UNAVAILABLE);
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(verdict_, 7);
}

TEST_F(WrongArguments, NumbersOutOfRangeAreNamed) {
  skim_kernel_set set{};
  set.size = sizeof set;
  skim_layer_role role{};
  role.size = sizeof role;
  skim_cache_cost cost{};
  cost.size = sizeof cost;
  const std::int32_t far[] = {1000};
  refused("number is 99", [&](auto* e) { return skim_kernel_set_info(99, &set, e); });
  refused("-1", [&](auto* e) { return skim_checkpoint_layer_role(checkpoint_, -1, &role, e); });
  refused("1000", [&](auto* e) { return skim_checkpoint_cache_cost(checkpoint_, far, 1, 0, &cost, e); });
  refused("rollback is -1", [&](auto* e) { return skim_checkpoint_cache_cost(checkpoint_, far, 0, -1, &cost, e); });
  skim_model* model = nullptr;
  skim_model_options options{sizeof options, far, 1, nullptr, 0};
  refused("1000", [&](auto* e) { return skim_model_create(checkpoint_, &options, &model, e); });
  options.layer_count = SIZE_MAX;
  refused("options.layers", [&](auto* e) { return skim_model_create(checkpoint_, &options, &model, e); });
  options = {sizeof options, nullptr, 1, nullptr, 0};
  refused("options.layers is NULL", [&](auto* e) { return skim_model_create(checkpoint_, &options, &model, e); });
  refused_options("max_tokens", [](auto& o) { o.max_tokens = -1; });
  refused_options("max_tokens", [](auto& o) { o.max_tokens = kHuge; });
  refused_options("max_sequences", [](auto& o) { o.max_sequences = -1; });
  refused_options("max_bytes", [](auto& o) { o.max_bytes = -1; });
  refused_options("rollback", [](auto& o) { o.rollback = kHuge; });
  refused_options("page_rows", [](auto& o) { o.page_rows = -1; });
  refused_options("workspace_bytes", [](auto& o) { o.workspace_bytes = -1; });
  refused_options("threads", [](auto& o) { o.threads = -1; });
  refused_options("threads", [](auto& o) { o.threads = std::int64_t{1} << 32; });  // 0 if cut off
}

TEST_F(WrongArguments, UnknownSequencesAndBatchesOutOfOrderAreRefused) {
  refused("99", [&](auto* e) { return skim_cache_length(cache_, 99, &number_, e); });
  refused("99", [&](auto* e) { return skim_cache_remove(cache_, 99, e); });
  refused("99", [&](auto* e) { return skim_cache_fork(cache_, 99, 0, &number_, e); });
  refused("-1", [&](auto* e) { return skim_cache_truncate(cache_, -1, 0, e); });
  refused(
      "part of a batch", [&](auto* e) { return skim_cache_remove(cache_, sequence_, e); }, SKIM_WRONG_ORDER);
  skim_batch* batch = batch_;
  const skim_batch_entry twice[] = {{sequence_ + 1, 1}, {sequence_ + 1, 1}};
  new_sequence(cache_);
  const auto begin = [&](const skim_batch_entry* entries, std::size_t count) {
    return [&batch, this, entries, count](auto* e) { return skim_batch_begin(cache_, entries, count, &batch, e); };
  };
  refused("no sequences", begin(twice, 0));
  refused("entries is NULL", begin(nullptr, 1));
  refused("entries", begin(twice, SIZE_MAX));
  refused("twice", begin(twice, 2));
  const skim_batch_entry open{sequence_, 1}, none{sequence_ + 1, 0}, many{sequence_ + 1, kHuge};
  refused("another batch", begin(&open, 1), SKIM_WRONG_ORDER);
  refused("0 tokens", begin(&none, 1));
  refused("max_tokens", begin(&many, 1), SKIM_LIMIT_EXCEEDED);
  EXPECT_EQ(batch, nullptr);
  refused(
      "layer 0", [&](auto* e) { return skim_batch_commit(batch_, e); }, SKIM_WRONG_ORDER);
  forward(batch_, 0);
  refused("sequence 99", [&](auto* e) { return skim_batch_commit_sequence(batch_, 99, 1, e); });
  refused("3 of the 2", [&](auto* e) { return skim_batch_commit_sequence(batch_, sequence_, 3, e); });
  refused(
      "already", [&](auto* e) { return skim_batch_forward(batch_, 0, &x_rows_, &out_rows_, e); }, SKIM_WRONG_ORDER);
  EXPECT_TRUE(ok(skim_batch_commit(batch_, &error_), error_));
  refused(
      "committed", [&](auto* e) { return skim_batch_commit(batch_, e); }, SKIM_WRONG_ORDER);
}

TEST_F(WrongArguments, RowsThatDoNotFitAreNamed) {
  refused("x is NULL", [&](auto* e) { return skim_batch_forward(batch_, 0, nullptr, &out_rows_, e); });
  refused("out is NULL", [&](auto* e) { return skim_batch_forward(batch_, 0, &x_rows_, nullptr, e); });
  refused("layer 77", [&](auto* e) { return skim_batch_forward(batch_, 77, &x_rows_, &out_rows_, e); });
  const auto odd = reinterpret_cast<std::uintptr_t>(x_.data()) + 1;
  refused_x("x has no data", [](auto& x) { x.data = nullptr; });
  refused_x("x.data", [&](auto& x) { x.data = reinterpret_cast<const std::uint16_t*>(odd); });
  refused_x("x has shape [3, ", [](auto& x) { x.rows = 3; });
  refused_x("x has shape [-1, ", [](auto& x) { x.rows = -1; });
  refused_x("expected [2, ", [](auto& x) { x.width = 1; });
  refused_x("expected [2, ", [](auto& x) { x.width = 0; });
  refused_x("strides", [](auto& x) { x.stride = 1; });
  refused_x("strides", [](auto& x) { x.stride = -x.width; });
  refused_x("more than memory", [](auto& x) { x.stride = kHuge; });
  refused_out("out has no data", [](auto& out) { out.data = nullptr; });
  refused_out("out has shape [1, ", [](auto& out) { out.rows = 1; });
  refused_out("expected [2, ", [](auto& out) { out.width = kHuge; });
  refused_out("more than memory", [](auto& out) { out.stride = kHuge / 2; });
  refused_out("overlap", [&](auto& out) { out.data = x_.data() + 1; });
  EXPECT_EQ(out_, std::vector<std::uint16_t>(out_.size()));  // nothing was computed
  forward(batch_, 0);
}

TEST_F(WrongArguments, AToleranceThatIsNoneIsRefused) {
  for (const double tolerance : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    skim_verify_options options{sizeof options, nullptr, &tolerance, nullptr, 0};
    const std::string file = case_path("v32-tiny-bf16");
    refused("tolerance", [&](auto* e) { return skim_verify(file.c_str(), &options, &verdict_, nullptr, e); });
  }
}

TEST(ErrorBuffer, ALongMessageIsCutOff) {
  const std::string path = "/nonexistent/" + std::string(2000, 'x');
  skim_checkpoint* checkpoint = nullptr;
  skim_error error;
  std::memset(&error, 0x55, sizeof error);
  EXPECT_EQ(skim_checkpoint_open(path.c_str(), &checkpoint, &error), SKIM_IO);
  EXPECT_EQ(std::strlen(error.message), sizeof error.message - 1);
  EXPECT_EQ(std::string(error.message).substr(0, 13), path.substr(0, 13));
}

}  // namespace
}  // namespace skim::test

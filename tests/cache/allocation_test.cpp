// Claims: whichever allocation is refused, the call that needed it says so with Error{out_of_memory}, leaves everything
// as it was, and can be repeated. This executable replaces operator new by one that refuses on demand.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <optional>

#include "attention/stack.hpp"
#include "base/access.hpp"
#include "cache/cache_impl.hpp"
#include "refuser.hpp"

namespace skim::test {
namespace {

/// A cache used in every way. One allocation is refused; the call that needed it is repeated.
class Scenario {
 public:
  Scenario(const Model& model, std::int64_t refused_allocation)
      : model_(model), cache_(model, {.max_tokens = 256, .rollback = 2, .page_rows = 2, .threads = 1}) {
    refuser = {.left = refused_allocation};
  }

  void run() {
    const SequenceId a = add([&] { return cache_.add(); }), b = add([&] { return cache_.add(); });
    run_batch({{a, 9}, {b, 2}}, {9, 2});
    const SequenceId c = add([&] { return cache_.fork(a); });
    const SequenceId d = add([&] { return cache_.fork(a, 8); });
    run_batch({{a, 3}, {b, 2}, {c, 2}}, {1, 0, 2});
    attempt([&] { cache_.truncate(a, 8); });
    attempt([&] { cache_.truncate(c, 0); });
    run_batch({{d, 3}, {a, 1}, {c, 1}}, {3, 1, -1});
    attempt([&] { cache_.restorable(a); });
    attempt([&] { EXPECT_TRUE(cache_.can_admit({{a, 1}, {b, 1}, {c, 1}, {d, 1}})); });
    attempt([&] { cache_.remove(b); });
  }

  bool operator==(const Scenario& other) const { return outputs_ == other.outputs_ && state() == other.state(); }

 private:
  /// Bytes in use, and everything kept of every sequence.
  std::vector<std::vector<std::byte>> state() const {
    std::vector<std::vector<std::byte>> all(1, std::vector<std::byte>(static_cast<std::size_t>(cache_.bytes())));
    for (const SequenceId id : ids_) {
      if (Access::impl(cache_).sequences.contains(id.value)) all.push_back(state_bytes(cache_, id));
    }
    return all;
  }

  template <class Operation>
  void attempt(Operation operation) {
    const auto before = state();
    const bool refused_before = refuser.refused;
    try {
      refuser.on = true;
      operation();
      refuser.on = false;
      EXPECT_EQ(refuser.refused, refused_before) << "went on without memory";
      return;
    } catch (const Error& error) {
      refuser.on = false;
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
    } catch (const std::exception& error) {
      refuser.on = false;
      ADD_FAILURE() << "not an Error of this library: " << error.what();
    }
    EXPECT_TRUE(state() == before);
    operation();
  }

  template <class Operation>
  SequenceId add(Operation operation) {
    SequenceId id;
    attempt([&] { id = operation(); });
    ids_.push_back(id);
    return id;
  }

  /// All layers, then commits as much of each sequence as accepted; -1: nothing, by dropping the batch.
  void run_batch(const std::vector<BatchEntry>& entries, const std::vector<std::int64_t>& accepted) {
    std::optional<Batch> batch;
    attempt([&] { batch.emplace(cache_.begin(entries)); });
    const std::array shape{batch->tokens(), hidden_dim(model_.config())};
    for (const int layer : model_.layers()) {
      std::vector<bf16> x, out(static_cast<std::size_t>(shape[0] * shape[1]));
      for (const auto& [id, tokens] : entries) {
        for (std::int64_t i = 0; i < tokens; ++i) {
          const std::vector<bf16> state =
              hidden_state(std::to_string(id.value), layer, cache_.length(id) + i, shape[1]);
          x.insert(x.end(), state.begin(), state.end());
        }
      }
      attempt([&] {
        model_.forward(layer, *batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape));
      });
      outputs_.push_back(out);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (accepted[i] >= 0) attempt([&] { batch->commit(entries[i].sequence, accepted[i]); });
    }
    attempt([&] { batch.reset(); });
  }

  const Model& model_;
  KvCache cache_;
  std::vector<SequenceId> ids_;
  std::vector<std::vector<bf16>> outputs_;
};

class Allocation : public testing::TestWithParam<std::string> {};

TEST_P(Allocation, ARefusedOneIsReportedAndLeavesNoTrace) {
  const Model model = small_model({"portable", GetParam()});
  Scenario undisturbed(model, std::numeric_limits<std::int64_t>::max());
  undisturbed.run();
  std::int64_t refused = 0;
  for (;; ++refused) {
    SCOPED_TRACE(testing::Message() << "allocation " << refused);
    Scenario scenario(model, refused);
    scenario.run();
    ASSERT_TRUE(scenario == undisturbed);
    ASSERT_FALSE(HasFailure());
    if (!refuser.refused) break;
  }
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Every, Allocation, testing::Values("tiny", "v32_tiny"),
                         [](const auto& suite) { return suite.param; });

}  // namespace
}  // namespace skim::test

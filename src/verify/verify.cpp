#include "skim/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/out_of_memory.hpp"
#include "checkpoint/tensor_names.hpp"
#include "models/family.hpp"
#include "skim/cache.hpp"
#include "skim/config_fields.hpp"
#include "skim/error.hpp"
#include "skim/model.hpp"
#include "verify/case_file.hpp"
#include "verify/layer_replay.hpp"
#include "verify/report_builder.hpp"

namespace skim {
namespace {

/// Replays the calls of a file one after the other on one cache.
class Replay {
 public:
  Replay(const CaseFile& file, const Model& model, const VerifyOptions& options)
      : file_(file),
        model_(model),
        options_(options),
        cache_(model, {.max_tokens = file.max_tokens(), .threads = options.threads}) {}

  void run(ReportBuilder& report) {
    for (std::size_t n = 0; n < file_.calls().size(); ++n) run_call(static_cast<std::int64_t>(n), report);
  }

 private:
  void reset(int batch) {
    for (const SequenceId id : sequences_) cache_.remove(id);
    sequences_.clear();
    for (int i = 0; i < batch; ++i) sequences_.push_back(cache_.add());
    const RecordedKind* row = file_.find_kind(RecordedUse::window);
    if (row == nullptr) return;
    const std::int64_t window = file_.shape().window;
    for (const int layer : file_.layers()) {
      rings_[layer] = WindowRings(batch, std::min(window, file_.longest()), window, row->width);
    }
  }

  void run_call(std::int64_t n, ReportBuilder& report) {
    const CaseCall& call = file_.calls()[static_cast<std::size_t>(n)];
    if (call.reset || n == 0) reset(call.batch);
    std::vector<BatchEntry> entries;
    for (const SequenceId id : sequences_) entries.push_back({id, call.seqlen});
    Batch batch = cache_.begin(entries);
    ReusedVerdicts reused;
    std::vector<bf16> out(static_cast<std::size_t>(batch.tokens() * file_.shape().dim));
    for (const int layer : file_.layers()) {
      const Tensor input = file_.input(n, layer);
      std::vector<bf16> x(out.size());
      std::copy_n(input.bytes.data(), input.bytes.size(), reinterpret_cast<std::byte*>(x.data()));
      const std::array shape{batch.tokens(), file_.shape().dim};
      LayerReplay replay(file_, {n, layer}, rings_[layer], reused, options_);
      model_.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape), &replay);
      replay.judge(report);
    }
    batch.commit();
  }

  const CaseFile& file_;
  const Model& model_;
  const VerifyOptions& options_;
  KvCache cache_;
  std::vector<SequenceId> sequences_;
  std::map<int, WindowRings> rings_;
};

/// The recording and the weights must be of one model. How weights are stored and how many draft layers follow does not
/// matter.
void check_same_model(const Config& of_weights, const CaseFile& file) {
  std::string text;
  for (const ConfigDifference& difference : config_differences(file.config(), of_weights, file.max_tokens())) {
    text += fmt::format("{}{} is {} in the recording, {} with the weights", text.empty() ? "" : "; ", difference.name,
                        difference.first, difference.second);
  }
  if (!text.empty()) throw Error(ErrorCode::bad_config, fmt::format("{}: {}", file.name(), text));
}

/// fp8 weights are judged less strictly, because the last projection quantizes its input once more.
bool has_fp8_output(const Checkpoint& weights, const std::vector<int>& layers) {
  return std::any_of(layers.begin(), layers.end(), [&](int layer) {
    return weights.info(output_projection(weights.config(), layer)).dtype == DType::f8_e4m3;
  });
}

VerifyReport replay(const std::filesystem::path& path, const VerifyOptions& options) {
  if (options.tolerance && !(*options.tolerance >= 0)) {  // a NaN would let everything pass
    throw Error(ErrorCode::invalid_argument,
                fmt::format("verify: tolerance is {}, expected a number of at least 0", *options.tolerance));
  }
  const CaseFile file(SafetensorsFile::open(path));
  const Checkpoint weights = options.weights ? *options.weights : Checkpoint::open(path);
  if (options.weights) check_same_model(weights.config(), file);
  const auto loading = [&](int layer) {
    if (options.progress) options.progress(fmt::format("loading layer {}", layer));
  };
  const Model model(weights, {.layers = file.layers(), .kernels = options.kernels, .progress = loading});
  ReportBuilder builder({.reference = model.kernels() == "reference",
                         .fp8 = has_fp8_output(weights, file.layers()),
                         .world_size = file.world_size(),
                         .everywhere = options.tolerance},
                        file);
  Replay(file, model, options).run(builder);
  VerifyReport report;
  report.file = path.string();
  report.model = model_type(file.config());
  report.kernels = model.kernels();
  report.ignored = file.ignored();
  report.empty = file.empty();
  builder.finish(report);
  return report;
}

}  // namespace

VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options) {
  return or_out_of_memory(path.native(), [&] { return replay(path, options); });
}

}  // namespace skim

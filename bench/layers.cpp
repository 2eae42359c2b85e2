#include "bench/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "bench/plant.hpp"
#include "bench/run.hpp"
#include "bench/shapes.hpp"

namespace skim::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// What the queries of a layer look at.
struct Looked {
  double window = 0, selected = 0, scored = 0;  ///< Rows and index keys of all queries together.
};

/// Compressed positions that a token sees.
std::int64_t visible(const LayerRole& role, std::int64_t position) {
  return role.ratio > 0 ? (position + 1) / role.ratio : 0;
}

/// Index keys that a query meets.
std::int64_t scored(const Shapes& shapes, const LayerRole& role, std::int64_t position) {
  const std::int64_t seen = visible(role, position);
  if (role.key_source < 0) return 0;
  return role.candidate_source >= 0
             ? std::min<std::int64_t>(seen, shapes.candidate_topk_blocks * shapes.candidate_block_size)
             : seen;
}

Looked looked_at(const Shapes& shapes, const LayerRole& role, std::int64_t context, std::int64_t tokens) {
  Looked looked;
  for (std::int64_t position = context; position < context + tokens; ++position) {
    looked.window += static_cast<double>(std::min<std::int64_t>(position + 1, shapes.window));
    looked.selected += static_cast<double>(std::min<std::int64_t>(visible(role, position), shapes.topk));
    looked.scored += static_cast<double>(scored(shapes, role, position));
  }
  return looked;
}

}  // namespace

/// Products: of every matrix with every token (with every group, for index keys of V4.1), of every query with the index
/// keys it meets and the rows it attends to. Bytes: every weight, index key and row that is needed at all, once; inputs
/// and outputs in bf16. Queries are taken to meet different rows while there are any.
Work layer_work(const Checkpoint& checkpoint, int layer, std::int64_t context, std::int64_t tokens) {
  const Shapes shapes = shapes_of(checkpoint.config());
  const LayerRole role = layer_role(checkpoint.config(), layer);
  const auto n = static_cast<double>(tokens);
  Work work{.products = 0, .integer_products = 0, .bytes = 4 * n * static_cast<double>(shapes.dim)};
  for (const LinearShape& matrix : linear_shapes(checkpoint, layer)) {
    const auto elements = static_cast<double>(matrix.format.out * matrix.format.in);
    work.products += 2 * elements * matrix.count * n / matrix.tokens_per_row;
    work.bytes += matrix.bytes * matrix.count;
  }
  const Looked looked = looked_at(shapes, role, context, tokens);
  work.products += (looked.window + looked.selected) * shapes.attend_operations();
  (shapes.has_integer_keys() ? work.integer_products : work.products) += looked.scored * shapes.index_operations();

  const auto there = static_cast<double>(visible(role, context + tokens - 1));
  const double window = std::min<double>(shapes.window + n - 1, static_cast<double>(context + tokens));
  work.bytes += shapes.window > 0 ? window * static_cast<double>(shapes.window_row.bytes()) : 0;
  work.bytes += std::min(looked.selected, there) * static_cast<double>(shapes.row.bytes());
  work.bytes += std::min(looked.scored, there) * static_cast<double>(shapes.key_row.bytes());
  return work;
}

LayerSubject::LayerSubject(const Checkpoint& checkpoint, const ModelOptions& model, const CacheOptions& cache)
    : model_(checkpoint, model), cache_(model_, cache) {}

void LayerSubject::plant(std::int64_t context) {
  if (sequence_.value >= 0) cache_.remove(sequence_);
  RandomWords random(6);
  sequence_ = bench::plant(cache_, context, random);
}

std::vector<double> LayerSubject::forward(std::int64_t tokens) {
  const std::array shape{tokens, hidden_dim(model_.config())};
  if (static_cast<std::int64_t>(x_.size()) != shape[0] * shape[1]) {
    RandomWords random(7);
    x_ = random_values(random, shape[0] * shape[1]);
    out_.resize(x_.size());
  }
  Batch batch = cache_.begin({{sequence_, tokens}});
  std::vector<double> seconds;
  for (const int layer : model_.layers()) {
    const auto start = Clock::now();
    model_.forward(layer, batch, View<const bf16, 2>(x_.data(), shape), View<bf16, 2>(out_.data(), shape));
    seconds.push_back(seconds_since(start));
  }
  before_drop();
  return seconds;
}

namespace {

/// The results of all layers for one context and number of tokens.
void bench_batch(const BenchRun& run, const BenchModel& model, std::vector<LayerSubject>& subjects,
                 std::int64_t context, std::int64_t tokens, const char* name) {
  std::vector<Sampler> samplers;
  for (LayerSubject& subject : subjects) samplers.emplace_back([&subject, tokens] { return subject.forward(tokens); });
  Measurement measured = measure(run, samplers, {});
  const std::vector<int>& layers = subjects[0].model().layers();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerRole role = layer_role(model.checkpoint.config(), layers[i]);
    Result result;
    result.model = model.name;
    result.name = name;
    result.shape = fmt::format("layer {} {} ratio {}, {} + {} tokens", layers[i], role_name(role.role), role.ratio,
                               context, tokens);
    result.work = layer_work(model.checkpoint, layers[i], context, tokens);
    result.layer = layers[i];
    result.role = role_name(role.role);
    result.ratio = role.ratio;
    result.context = context;
    result.tokens = tokens;
    report(run, measured, i, result);
  }
}

}  // namespace

void bench_layers(const BenchRun& run, const BenchModel& model, const LayerOptions& options) {
  const std::int64_t longest = *std::max_element(options.contexts.begin(), options.contexts.end());
  std::vector<LayerSubject> subjects;
  for (const KernelSet* set : run.sets) {
    subjects.emplace_back(model.checkpoint, ModelOptions{.layers = options.layers, .kernels = std::string(set->name)},
                          CacheOptions{.max_tokens = longest + options.tokens, .threads = run.context.threads()});
  }
  run.report.print_header(fmt::format("{}: layers, {} threads", model.name, run.context.threads()));
  for (const std::int64_t context : options.contexts) {
    for (LayerSubject& subject : subjects) subject.plant(context);
    if (options.decode) bench_batch(run, model, subjects, context, 1, "decode");
    if (options.prefill) bench_batch(run, model, subjects, context, options.tokens, "prefill");
  }
}

}  // namespace skim::bench

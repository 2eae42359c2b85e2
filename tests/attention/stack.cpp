#include "attention/stack.hpp"
#include "named_v41.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cache/cache_impl.hpp"

namespace skim::test {
namespace {

/// Records selections of every sequence of a batch, after another trace has seen them.
class SelectionRecorder final : public Trace {
 public:
  SelectionRecorder(std::vector<Outcome*> outcomes, Trace* watcher)
      : outcomes_(std::move(outcomes)), watcher_(watcher != nullptr ? *watcher : nobody_) {}
  bool wants(std::string_view name) override { return watcher_.wants(name); }
  void rows(const TraceRows& event) override { watcher_.rows(event); }
  void scores(const TraceScores& event) override { watcher_.scores(event); }
  void attention(const TraceAttention& event) override { watcher_.attention(event); }
  bool cancelled() override { return watcher_.cancelled(); }
  void candidates(const TraceSelection& event) override {
    watcher_.candidates(event);
    outcomes_[static_cast<std::size_t>(event.sequence)]->candidates[event.layer][event.position] = event.chosen;
  }
  void selection(const TraceSelection& event) override {
    watcher_.selection(event);
    outcomes_[static_cast<std::size_t>(event.sequence)]->selected[event.layer][event.position] = event.chosen;
  }
  void progress(int layer, std::int64_t done, std::int64_t total) override { watcher_.progress(layer, done, total); }

 private:
  std::vector<Outcome*> outcomes_;
  Trace nobody_;
  Trace& watcher_;
};

/// DeepSeek's inference spelling.
std::string to_json(const V41Config& c) {
  std::string json = fmt::format(
      R"({{"dim": {}, "n_layers": {}, "n_heads": {}, "head_dim": {}, "rope_head_dim": {}, "q_lora_rank": {})", c.dim,
      c.n_layers, c.n_heads, c.head_dim, c.rope_head_dim, c.q_lora_rank);
  json += fmt::format(R"(, "o_groups": {}, "o_lora_rank": {}, "window_size": {}, "norm_eps": {}, "rope_theta": {})",
                      c.o_groups, c.o_lora_rank, c.window_size, c.norm_eps, c.rope_theta);
  json += fmt::format(
      R"(, "compress_rope_theta": {}, "rope_factor": {}, "beta_fast": {}, "beta_slow": {}, "original_seq_len": {})",
      c.compress_rope_theta, c.rope_factor, c.beta_fast, c.beta_slow, c.original_seq_len);
  json += fmt::format(
      R"(, "compress_ratios": [{}], "kv_source_layers": [{}], "index_source_layers": [{}], "index_n_heads": {})",
      fmt::join(c.compress_ratios, ", "), fmt::join(c.kv_source_layers, ", "), fmt::join(c.index_source_layers, ", "),
      c.index_n_heads);
  json += fmt::format(
      R"(, "index_head_dim": {}, "index_topk": {}, "candidate_source_layer": {}, "candidate_topk_blocks": {})",
      c.index_head_dim, c.index_topk, c.candidate_source_layer, c.candidate_topk_blocks);
  return json + fmt::format(R"(, "candidate_block_size": {}, "dtype": "{}"}})", c.candidate_block_size,
                            c.weight_type == WeightType::bf16 ? "bf16" : "fp8");
}

std::string to_json(const V32Config& c) {
  std::string json = fmt::format(
      R"({{"dim": {}, "n_layers": {}, "n_heads": {}, "q_lora_rank": {}, "kv_lora_rank": {}, "qk_nope_head_dim": {})",
      c.dim, c.n_layers, c.n_heads, c.q_lora_rank, c.kv_lora_rank, c.qk_nope_head_dim);
  json +=
      fmt::format(R"(, "qk_rope_head_dim": {}, "v_head_dim": {}, "norm_eps": {}, "rope_theta": {}, "rope_factor": {})",
                  c.qk_rope_head_dim, c.v_head_dim, c.norm_eps, c.rope_theta, c.rope_factor);
  json +=
      fmt::format(R"(, "beta_fast": {}, "beta_slow": {}, "mscale": {}, "original_seq_len": {}, "index_n_heads": {})",
                  c.beta_fast, c.beta_slow, c.mscale, c.original_seq_len, c.index_n_heads);
  return json + fmt::format(R"(, "index_head_dim": {}, "index_topk": {}, "scale_fmt": {}, "dtype": "{}"}})",
                            c.index_head_dim, c.index_topk, c.ue8m0_scales ? "\"ue8m0\"" : "null",
                            c.weight_type == WeightType::bf16 ? "bf16" : "fp8");
}

void append(std::vector<std::byte>& bytes, const void* data, std::int64_t count) {
  const auto* first = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), first, first + count);
}

void append_rows(std::vector<std::byte>& bytes, const ConstPagedRows& rows, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) append(bytes, rows.row(i), rows.row_bytes);
}

/// Every role in seven layers, with a draft layer; YaRN.
V41Config tiny() { return named_v41("v41-tiny"); }

/// Odd ratios, 6 heads, window 5, top 5, no YaRN, no candidates, widths that are no multiples of 32.
V41Config odd() {
  V41Config c = tiny();
  c.dim = 100;
  c.n_heads = 6;
  c.o_groups = 3;
  c.o_lora_rank = 24;
  c.q_lora_rank = 40;
  c.head_dim = 96;
  c.window_size = 5;
  c.original_seq_len = 0;
  c.compress_ratios = {0, 1, 1, 3, 3, 3, 5, 0};
  c.kv_source_layers = {1, 3, 6};
  c.index_source_layers = {1, 3, 5, 6};
  c.index_n_heads = 3;
  c.index_head_dim = 32;
  c.index_topk = 5;
  c.candidate_source_layer = -1;
  return c;
}

/// bf16 weights, candidates on a ratio-2 layer with blocks of 3, window 1, one head.
V41Config narrow() {
  V41Config c = tiny();
  c.n_heads = 1;
  c.o_groups = 1;
  c.window_size = 1;
  c.compress_ratios = {1, 2, 2, 2, 2, 0, 2, 0};
  c.kv_source_layers = {0, 1, 4};
  c.index_source_layers = {0, 1, 3, 4, 6};
  c.index_topk = 4;
  c.candidate_source_layer = 1;
  c.candidate_topk_blocks = 3;
  c.candidate_block_size = 3;
  c.weight_type = WeightType::bf16;
  return c;
}

/// float32 scales, 3 heads, values narrower than keys, top 5, every index element rotated; YaRN.
V32Config odd_v32() {
  V32Config c = std::get<V32Config>(named_config("v32-tiny"));
  c.dim = 100;
  c.n_heads = 3;
  c.q_lora_rank = 40;
  c.kv_lora_rank = 256;
  c.qk_nope_head_dim = 24;
  c.qk_rope_head_dim = 32;
  c.v_head_dim = 20;
  c.index_n_heads = 3;
  c.index_head_dim = 32;
  c.index_topk = 5;
  c.ue8m0_scales = false;
  return c;
}

}  // namespace

Config small_config(const std::string& name) {
  if (name == "v32_tiny") return named_config("v32-tiny");
  if (name == "v32_odd") return odd_v32();
  if (name == "odd") return odd();
  return name == "narrow" ? narrow() : tiny();
}

std::vector<std::string> small_config_names() { return {"tiny", "odd", "narrow", "v32_tiny", "v32_odd"}; }

V41Config one_layer(int ratio) {
  V41Config c = tiny();
  c.n_layers = 1;
  c.n_draft_layers = 0;
  c.compress_ratios = {ratio};
  c.kv_source_layers = c.index_source_layers = ratio > 0 ? std::vector<int>{0} : std::vector<int>{};
  c.candidate_source_layer = -1;
  c.weight_type = WeightType::bf16;
  return c;
}

Checkpoint with_tensors(const Config& config, const std::map<std::string, std::vector<bf16>>& changed) {
  static std::atomic<int> counter = 0;
  const Checkpoint base = Checkpoint::synthetic(config);
  std::vector<Tensor> tensors;
  std::vector<TensorToWrite> list;
  for (const TensorInfo& info : base.tensors()) {
    const auto found = changed.find(info.name);
    tensors.push_back(base.tensor(info.name));
    list.push_back(found == changed.end()
                       ? TensorToWrite{info.name, info.dtype, info.shape, tensors.back().bytes}
                       : TensorToWrite{info.name, DType::bf16, info.shape, std::as_bytes(std::span(found->second))});
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("skim-test-{}-{}", ::getpid(), counter++);
  std::filesystem::create_directory(folder);
  write_safetensors(folder / "model.safetensors", list, {});
  std::ofstream(folder / "config.json") << std::visit([](const auto& c) { return to_json(c); }, config);
  Checkpoint checkpoint = Checkpoint::open(folder);
  std::filesystem::remove_all(folder);  // the mapping stays
  return checkpoint;
}

std::string difference(const Outcome& a, const Outcome& b) {
  for (const auto& [layer, out] : a.out) {
    const std::vector<bf16>& other = b.out.at(layer);
    if (out.size() != other.size()) return fmt::format("layer {}: {} or {} outputs", layer, out.size(), other.size());
    const auto [mine, theirs] = std::mismatch(out.begin(), out.end(), other.begin());
    if (mine != out.end()) {
      return fmt::format("layer {}: element {} is {:#06x} or {:#06x}", layer, mine - out.begin(), mine->bits,
                         theirs->bits);
    }
  }
  if (a.selected != b.selected) return "selections differ";
  if (a.candidates != b.candidates) return "candidate blocks differ";
  return a.state == b.state ? "" : "cache contents differ";
}

std::vector<std::byte> state_bytes(const KvCache& cache, SequenceId id) {
  const KvCache::Impl& impl = cache.impl();
  const Sequence& sequence = impl.sequences.at(id.value);
  std::vector<std::byte> bytes;
  append(bytes, &sequence.length, sizeof(sequence.length));
  if (sequence.length == 0) return bytes;
  for (std::size_t i = 0; i < sequence.layers.size(); ++i) {
    const LayerLayout& layout = impl.layout->layers[i];
    const LayerCache& layer = sequence.layers[i];
    for (std::int64_t p = std::max<std::int64_t>(0, sequence.length - layout.window); p < sequence.length; ++p) {
      append(bytes, layer.ring.data() + p % layer.ring_rows * layout.window_row.bytes(), layout.window_row.bytes());
    }
    if (layout.ratio == 0) continue;
    append_rows(bytes, layer.compressed.rows(), sequence.length / layout.ratio);
    append_rows(bytes, layer.keys.rows(), sequence.length / layout.ratio);
    for (std::int64_t p = sequence.length - sequence.length % layout.ratio; p < sequence.length; ++p) {
      append(bytes, layer.open.data() + p % layer.open_rows * layout.open_row_bytes(), layout.open_row_bytes());
    }
  }
  return bytes;
}

std::vector<bf16> hidden_state(const std::string& sequence, int layer, std::int64_t position, std::int64_t dim) {
  const Tensor tensor = synthetic_input(fmt::format("{}.{}.{}", sequence, layer, position), {dim});
  std::vector<bf16> state(static_cast<std::size_t>(dim));
  std::memcpy(state.data(), tensor.bytes.data(), tensor.bytes.size());
  return state;
}

void Tape::rows(const TraceRows& event) {
  if (event.floats.data != nullptr) {
    auto& rows = floats_[{event.layer, std::string(event.name)}];
    for (std::int64_t i = 0; i < event.floats.shape[0] && event.sequence == 0; ++i) {
      rows[event.first + i].assign(event.floats.row(i), event.floats.row(i) + event.floats.shape[1]);
    }
    return;
  }
  Rows& rows = rows_[{event.layer, std::string(event.name), event.sequence}];
  for (std::int64_t i = 0; i < event.rows.shape[0]; ++i) {
    rows[event.first + i].assign(event.rows.row(i), event.rows.row(i) + event.rows.shape[1]);
  }
}

void Tape::scores(const TraceScores& event) {
  scores_[{event.layer, event.position}].assign(event.scores.begin(), event.scores.end());
}

void Tape::selection(const TraceSelection& event) { limits_[{event.layer, event.position}] = event.limit; }

void Stack::add(const std::string& name) { adopt(name, cache_.add()); }

void Stack::adopt(const std::string& name, SequenceId id) {
  ids_[name] = id;
  outcomes_[name] = {};
}

void Stack::remove(const std::string& name) {
  cache_.remove(ids_.at(name));
  ids_.erase(name);
}

Batch Stack::run(const std::vector<std::pair<std::string, std::int64_t>>& tokens, bool record) {
  std::vector<BatchEntry> entries;
  std::vector<Outcome> scratch(tokens.size());
  std::vector<Outcome*> outcomes;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    entries.push_back({ids_.at(tokens[i].first), tokens[i].second});
    outcomes.push_back(record ? &outcomes_.at(tokens[i].first) : &scratch[i]);
  }
  SelectionRecorder recorder(outcomes, watcher_);
  Batch batch = cache_.begin(entries);
  const std::int64_t dim = hidden_dim(model_.config());
  const std::array shape{batch.tokens(), dim};
  for (const int layer : model_.layers()) {
    std::vector<bf16> x, out(static_cast<std::size_t>(batch.tokens() * dim));
    for (const auto& [name, count] : tokens) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t position = cache_.length(ids_.at(name)) + i;
        const auto exchanged = put_.find({name, position});
        const std::vector<bf16> state =
            hidden_state(exchanged == put_.end() ? name : exchanged->second, layer, position, dim);
        x.insert(x.end(), state.begin(), state.end());
      }
    }
    model_.forward(layer, batch, View<const bf16, 2>(x.data(), shape), View<bf16, 2>(out.data(), shape), &recorder);
    auto next = out.begin();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto last = next + tokens[i].second * dim;
      outcomes[i]->out[layer].insert(outcomes[i]->out[layer].end(), next, last);
      next = last;
    }
  }
  return batch;
}

void Stack::feed(const std::vector<std::pair<std::string, std::int64_t>>& tokens) { run(tokens, true).commit(); }

void Stack::feed_and_drop(const std::vector<std::pair<std::string, std::int64_t>>& tokens) { run(tokens, false); }

Outcome Stack::outcome(const std::string& name) const {
  Outcome outcome = outcomes_.at(name);
  outcome.state = state_bytes(cache_, ids_.at(name));
  return outcome;
}

Outcome run_alone(const Model& model, const CacheOptions& options, const std::string& name,
                  const std::vector<std::int64_t>& pieces) {
  Stack stack(model, options);
  stack.add(name);
  for (const std::int64_t piece : pieces) stack.feed({{name, piece}});
  return stack.outcome(name);
}

}  // namespace skim::test

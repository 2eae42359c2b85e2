#include "models/v41/config.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "models/config_rules.hpp"

namespace skim {

Fields fields_of(V41Config& c) {
  const auto most = static_cast<double>(kMostExtent);
  constexpr double least = std::numeric_limits<int>::min(),
                   largest = std::numeric_limits<int>::max();  // see check_sources
  return {
      number_field("dim", "hidden_size", &c.dim, 1, most),
      number_field("n_layers", "num_hidden_layers", &c.n_layers, 1, kMostLayers).used(Use::layers),
      draft_layers_field("n_mtp_layers", &c.n_draft_layers),
      extent_field("n_heads", "num_attention_heads", &c.n_heads),
      extent_field("head_dim", "head_dim", &c.head_dim),
      extent_field("rope_head_dim", "qk_rope_head_dim", &c.rope_head_dim),
      extent_field("q_lora_rank", "q_lora_rank", &c.q_lora_rank),
      extent_field("o_groups", "o_groups", &c.o_groups),
      extent_field("o_lora_rank", "o_lora_rank", &c.o_lora_rank),
      extent_field("window_size", "sliding_window", &c.window_size),
      number_field("norm_eps", "rms_norm_eps", &c.norm_eps, 0, 1),
      number_field("rope_theta", "rope_theta", &c.rope_theta, 1, 1e12),
      number_field("compress_rope_theta", "compress_rope_theta", &c.compress_rope_theta, 1, 1e12),
      yarn_field("rope_factor", "factor", &c.rope_factor),
      yarn_field("beta_fast", "beta_fast", &c.beta_fast).without(Absent::assumed),
      yarn_field("beta_slow", "beta_slow", &c.beta_slow).without(Absent::assumed),
      original_length_field(&c.original_seq_len),
      number_field("compress_ratios", "compress_ratios", &c.compress_ratios, 0, 4096),
      number_field("kv_source_layers", "kv_source_layer_ids", &c.kv_source_layers, least, largest),
      number_field("index_source_layers", "index_source_layer_ids", &c.index_source_layers, least, largest),
      extent_field("index_n_heads", "index_n_heads", &c.index_n_heads, 0),  // 0 will do if nothing is selected
      extent_field("index_head_dim", "index_head_dim", &c.index_head_dim, 0),
      extent_field("index_topk", "index_topk", &c.index_topk, 0),
      extent_field("candidate_source_layer", "candidate_source_layer_id", &c.candidate_source_layer, -1)
          .without(Absent::plain),
      extent_field("candidate_topk_blocks", "candidate_topk_blocks", &c.candidate_topk_blocks, 0)
          .without(Absent::plain),
      extent_field("candidate_block_size", "candidate_block_size", &c.candidate_block_size, 0).without(Absent::plain),
      max_positions_field(&c.max_positions),
      weight_type_field(&c.weight_type),
  };
}

namespace {

using Names = const FieldNames&;

void check_shape(const V41Config& c, Names name) {
  check_multiple(name("head_dim"), c.head_dim, "quantization group of window rows", 32);
  check_multiple(name("n_heads"), c.n_heads, name("o_groups"), c.o_groups);
  check_multiple(name("rope_head_dim"), c.rope_head_dim, "adjacent pairs are rotated", 2);
  if (c.rope_head_dim > c.head_dim) {
    refuse("{} is {}, more than {} {}", name("rope_head_dim"), c.rope_head_dim, name("head_dim"), c.head_dim);
  }
  const std::int64_t query_width = std::int64_t{c.n_heads} * c.head_dim;
  const std::string heads = name("n_heads") + " * " + name("head_dim");
  check_weight(heads, query_width, name("q_lora_rank"), c.q_lora_rank);
  check_weight(heads, query_width, name("o_lora_rank"), c.o_lora_rank);
  check_weight(name("o_groups") + " * " + name("o_lora_rank"), std::int64_t{c.o_groups} * c.o_lora_rank, name("dim"),
               c.dim);
}

void check_ratios(const V41Config& c, Names name) {
  const auto entries = static_cast<std::int64_t>(c.compress_ratios.size());
  const std::int64_t needed = static_cast<std::int64_t>(c.n_layers) + c.n_draft_layers;
  if (entries != needed) {
    refuse("{} has {} entries, expected {} ({} layers and {} draft layers)", name("compress_ratios"), entries, needed,
           c.n_layers, c.n_draft_layers);
  }
  for (int layer = c.n_layers; layer < c.layer_count(); ++layer) {
    if (c.ratio(layer) != 0) {
      refuse("{}[{}] is {}, expected 0: layers from {} on are draft layers", name("compress_ratios"), layer,
             c.ratio(layer), c.n_layers);
    }
  }
}

void check_source_list(const V41Config& c, const std::string& field, const std::vector<int>& sources) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] < 0 || sources[i] >= c.n_layers) {
      refuse("{} names layer {}, expected 0 to {}", field, sources[i], c.n_layers - 1);
    }
    if (i > 0 && sources[i] <= sources[i - 1]) {
      refuse("{} has layer {} after layer {}, expected ascending layers", field, sources[i], sources[i - 1]);
    }
    if (c.ratio(sources[i]) == 0) refuse("{} names layer {}, whose compress_ratio is 0", field, sources[i]);
  }
}

bool contains(const std::vector<int>& list, int value) { return std::binary_search(list.begin(), list.end(), value); }

void check_sources(const V41Config& c, Names name) {
  check_source_list(c, name("kv_source_layers"), c.kv_source_layers);
  check_source_list(c, name("index_source_layers"), c.index_source_layers);
  for (const int layer : c.kv_source_layers) {
    if (!contains(c.index_source_layers, layer)) {
      refuse("{} names layer {}, but {} does not: nothing would own its index keys", name("kv_source_layers"), layer,
             name("index_source_layers"));
    }
  }
  std::set<int> ratios;  // of KV sources so far
  int selector = -1;     // last index source so far
  for (int layer = 0; layer < c.n_layers; ++layer) {
    if (contains(c.kv_source_layers, layer)) ratios.insert(c.ratio(layer));
    if (contains(c.index_source_layers, layer)) selector = layer;
    if (c.ratio(layer) == 0) continue;
    if (!ratios.contains(c.ratio(layer))) {
      refuse("layer {} has compress_ratio {}, but no layer of that ratio up to it is in {}", layer, c.ratio(layer),
             name("kv_source_layers"));
    }
    if (c.ratio(selector) != c.ratio(layer)) {
      refuse("layer {} has compress_ratio {}, but would use the selection of layer {}, whose compress_ratio is {}",
             layer, c.ratio(layer), selector, c.ratio(selector));
    }
  }
}

void check_positive(const std::string& field, int value) {
  if (value < 1) refuse("{} is {}, expected 1 to {}", field, value, kMostExtent);
}

void check_index(const V41Config& c, Names name) {
  if (c.kv_source_layers.empty()) return;
  check_positive(name("index_n_heads"), c.index_n_heads);
  check_positive(name("index_head_dim"), c.index_head_dim);
  check_positive(name("index_topk"), c.index_topk);
  check_weight(name("index_n_heads") + " * " + name("index_head_dim"), std::int64_t{c.index_n_heads} * c.index_head_dim,
               name("q_lora_rank"), c.q_lora_rank);
  check_multiple(name("index_head_dim"), c.index_head_dim, "quantization group of index keys", 32);
  if (c.rope_head_dim > c.index_head_dim) {
    refuse("{} is {}, more than {} {}", name("rope_head_dim"), c.rope_head_dim, name("index_head_dim"),
           c.index_head_dim);
  }
}

void check_candidates(const V41Config& c, Names name) {
  const int source = c.candidate_source_layer;
  if (source == -1) return;
  if (!contains(c.index_source_layers, source)) {
    refuse("{} is {}, expected -1 or one of {}", name("candidate_source_layer"), source, name("index_source_layers"));
  }
  check_positive(name("candidate_topk_blocks"), c.candidate_topk_blocks);
  check_positive(name("candidate_block_size"), c.candidate_block_size);
  const std::int64_t blocks = c.candidate_topk_blocks, size = c.candidate_block_size;
  // The pinned newest block may hold a single visible position.
  const std::int64_t surely_visible = blocks * size - (size - 1);
  if (surely_visible < c.index_topk) {
    refuse("{} {} of {} {} are only sure to hold {} visible positions, fewer than {} {}", name("candidate_topk_blocks"),
           blocks, name("candidate_block_size"), size, surely_visible, name("index_topk"), c.index_topk);
  }
  for (const int layer : c.index_source_layers) {
    if (layer > source && c.ratio(layer) != c.ratio(source)) {
      refuse("index source {} has compress_ratio {}, but its candidates come from layer {}, whose compress_ratio is {}",
             layer, c.ratio(layer), source, c.ratio(source));
    }
  }
}

void check_model_type(const JsonObject& object, bool required) {
  if (!required && !object.has("model_type")) return;
  const std::string type = object.text("model_type");
  if (type != kV41Model && type != std::string(kV41Model) + "_text") {
    object.fail("model_type", fmt::format("\"{}\"", kV41Model));
  }
}

/// Entries of compress_ratios beyond the backbone belong to draft layers, which never compress.
void read_draft_layers(ConfigReader& reader, Field& field, V41Config& c) {
  reader.read(field);
  const auto entries = static_cast<std::int64_t>(c.compress_ratios.size());
  const std::int64_t extra = std::max<std::int64_t>(0, entries - c.n_layers);
  if (extra > kMostDraftLayers) {
    refuse("{} has {} entries, expected at most {} ({} layers and {} draft layers)", reader.names()("compress_ratios"),
           entries, c.n_layers + kMostDraftLayers, c.n_layers, kMostDraftLayers);
  }
  if (extra < c.n_draft_layers && entries >= c.n_layers) {
    c.compress_ratios.resize(static_cast<std::size_t>(c.n_layers + c.n_draft_layers), 0);
  }
  c.n_draft_layers = static_cast<int>(std::max<std::int64_t>(extra, c.n_draft_layers));
}

void read_candidates(ConfigReader& reader, Fields& fields, V41Config& c) {
  Field &blocks = field_of(fields, "candidate_topk_blocks"), &size = field_of(fields, "candidate_block_size");
  reader.read(field_of(fields, "candidate_source_layer"));
  const Absent missing = c.candidate_source_layer < 0 ? Absent::plain : Absent::refused;
  for (Field* field : {&blocks, &size}) {
    *field = field->without(missing);
    reader.read(*field);
  }
  if (c.candidate_source_layer < 0) c.candidate_topk_blocks = c.candidate_block_size = 0;
}

/// What this model cannot do otherwise.
void expect_the_rest(ConfigReader& reader, const JsonObject& document, const V41Config& c) {
  for (const JsonObject& object : {document, reader.text()}) {
    reader.use(object, "model_type");
    reader.expect(object, "scale_fmt", {"\"ue8m0\""});
    reader.expect(object, "attention_bias", {"false"});
  }
  reader.expect("num_key_value_heads", {"1", fmt::format("{}", c.n_heads)});
  reader.expect_quantization("scale_fmt", {"\"ue8m0\""});
  expect_fp8_blocks(reader, kV41Block);
}

}  // namespace

V41Config read_v41_config(const JsonObject& document, const ReadOptions& options) {
  const bool nested = document.has("text_config");
  const JsonObject text = nested ? document.object("text_config") : document;
  check_model_type(document, nested || document.has("hidden_size"));
  check_model_type(text, false);
  ConfigReader reader(document, text, options);
  V41Config c;
  Fields fields = fields_of(c);
  const auto read_all = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) reader.read(field_of(fields, name));
  };
  read_all({"dim", "n_layers", "n_heads", "head_dim", "rope_head_dim", "q_lora_rank", "o_groups", "o_lora_rank",
            "window_size", "norm_eps"});
  read_rope(reader,
            {field_of(fields, "rope_theta"), field_of(fields, "rope_factor"), field_of(fields, "beta_fast"),
             field_of(fields, "beta_slow"), field_of(fields, "original_seq_len"), nullptr,
             &field_of(fields, "compress_rope_theta")},
            static_cast<double>(c.rope_head_dim) / c.head_dim);
  read_all({"compress_ratios", "kv_source_layers", "index_source_layers", "index_n_heads", "index_head_dim",
            "index_topk", "max_positions"});
  read_candidates(reader, fields, c);
  read_draft_layers(reader, field_of(fields, "n_draft_layers"), c);
  if (reader.spelling() == Spelling::inference) reader.read(field_of(fields, "weight_type"));
  expect_the_rest(reader, document, c);
  reader.finish({});
  check_config(c, reader.names());
  return c;
}

void check_config(const V41Config& config, const FieldNames& names) {
  V41Config c = config;
  check_ranges(fields_of(c), names);
  check_shape(c, names);
  check_yarn_theta(names("compress_rope_theta"), c.compress_rope_theta, c.original_seq_len);
  check_ratios(c, names);
  check_sources(c, names);
  check_index(c, names);
  check_candidates(c, names);
}

V41Config effective_config(const V41Config& config, std::int64_t) {
  const V41Config defaults;
  V41Config c = config;
  c.compress_ratios.resize(std::min(c.compress_ratios.size(), static_cast<std::size_t>(std::max(c.n_layers, 0))));
  const bool compresses = std::any_of(c.compress_ratios.begin(), c.compress_ratios.end(), [](int r) { return r > 0; });
  if (!compresses) c.compress_rope_theta = c.index_n_heads = c.index_head_dim = c.index_topk = 0;
  if (!compresses) c.original_seq_len = 0;
  if (c.original_seq_len == 0) {
    c.rope_factor = defaults.rope_factor;
    c.beta_fast = defaults.beta_fast;
    c.beta_slow = defaults.beta_slow;
  }
  if (c.candidate_source_layer < 0) c.candidate_topk_blocks = c.candidate_block_size = 0;
  return c;
}

V41Config v41_flash_config() {
  V41Config c = {.dim = 5120,
                 .n_layers = 40,
                 .n_draft_layers = 3,
                 .n_heads = 64,
                 .head_dim = 512,
                 .rope_head_dim = 64,
                 .q_lora_rank = 1280,
                 .o_groups = 8,
                 .o_lora_rank = 1024,
                 .window_size = 128,
                 .norm_eps = 1e-20,
                 .rope_theta = 1e4,
                 .compress_rope_theta = 1.6e5,
                 .rope_factor = 16,
                 .original_seq_len = 65536,
                 .compress_ratios = {},
                 .kv_source_layers = {2, 8, 14, 20},
                 .index_source_layers = {2, 8, 14, 20, 24, 28, 32, 36},
                 .index_n_heads = 32,
                 .index_head_dim = 128,
                 .index_topk = 512,
                 .candidate_source_layer = 20,
                 .candidate_topk_blocks = 2048,
                 .candidate_block_size = 8,
                 .max_positions = 1 << 20};
  c.compress_ratios.assign(2, 0);
  c.compress_ratios.insert(c.compress_ratios.end(), 18, 2);
  c.compress_ratios.insert(c.compress_ratios.end(), 20, 1);
  c.compress_ratios.insert(c.compress_ratios.end(), 3, 0);
  return c;
}

V41Config v41_tiny_config() {
  V41Config c = {.dim = 128,
                 .n_layers = 7,
                 .n_draft_layers = 1,
                 .n_heads = 4,
                 .head_dim = 64,
                 .rope_head_dim = 16,
                 .q_lora_rank = 64,
                 .o_groups = 2,
                 .o_lora_rank = 32,
                 .window_size = 8,
                 .norm_eps = 1e-20,
                 .rope_theta = 1e4,
                 .compress_rope_theta = 1.6e5,
                 .rope_factor = 4,
                 .original_seq_len = 16,
                 .compress_ratios = {0, 0, 2, 2, 1, 1, 1, 0},
                 .kv_source_layers = {2, 4},
                 .index_source_layers = {2, 4, 5},
                 .index_n_heads = 4,
                 .index_head_dim = 64,
                 .index_topk = 8,
                 .candidate_source_layer = 4,
                 .candidate_topk_blocks = 6,
                 .candidate_block_size = 2,
                 .max_positions = 4096};
  return c;
}

}  // namespace skim

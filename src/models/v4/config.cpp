#include "models/v4/config.hpp"

#include <algorithm>
#include <bit>

#include "models/config_rules.hpp"

namespace skim {

Fields fields_of(V4Config& c) {
  const auto most = static_cast<double>(kMostExtent);
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
      number_field("norm_eps", "rms_norm_eps", &c.norm_eps, 0, 1).without(Absent::assumed, Absent::refused),
      number_field("rope_theta", "rope_theta", &c.rope_theta, 1, 1e12),
      number_field("compress_rope_theta", "compress_rope_theta", &c.compress_rope_theta, 1, 1e12),
      yarn_field("rope_factor", "factor", &c.rope_factor),
      yarn_field("beta_fast", "beta_fast", &c.beta_fast).without(Absent::assumed),
      yarn_field("beta_slow", "beta_slow", &c.beta_slow).without(Absent::assumed),
      original_length_field(&c.original_seq_len),
      number_field("compress_ratios", "compress_ratios", &c.compress_ratios, 0, 4096),
      extent_field("index_n_heads", "index_n_heads", &c.index_n_heads),
      extent_field("index_head_dim", "index_head_dim", &c.index_head_dim),
      extent_field("index_topk", "index_topk", &c.index_topk),
      max_positions_field(&c.max_positions),
      weight_type_field(&c.weight_type),
  };
}

namespace {

using Names = const FieldNames&;

void check_shape(const V4Config& c, Names name) {
  check_multiple(name("n_heads"), c.n_heads, name("o_groups"), c.o_groups);
  check_multiple(name("rope_head_dim"), c.rope_head_dim, "adjacent pairs are rotated", 2);
  if (c.rope_head_dim >= c.head_dim) {
    refuse("{} is {}, expected less than {} {}", name("rope_head_dim"), c.rope_head_dim, name("head_dim"), c.head_dim);
  }
  check_multiple(name("head_dim") + " - " + name("rope_head_dim"), c.head_dim - c.rope_head_dim,
                 "quantization group of rows", 64);
  if (c.index_head_dim < 32 || !std::has_single_bit(static_cast<unsigned>(c.index_head_dim))) {
    refuse("{} is {}, expected a power of two of at least 32", name("index_head_dim"), c.index_head_dim);
  }
  if (c.rope_head_dim > c.index_head_dim) {
    refuse("{} is {}, more than {} {}", name("rope_head_dim"), c.rope_head_dim, name("index_head_dim"),
           c.index_head_dim);
  }
  const std::int64_t query_width = std::int64_t{c.n_heads} * c.head_dim;
  const std::string heads = name("n_heads") + " * " + name("head_dim");
  check_weight(heads, query_width, name("q_lora_rank"), c.q_lora_rank);
  check_weight(heads, query_width, name("o_lora_rank"), c.o_lora_rank);
  check_weight(name("o_groups") + " * " + name("o_lora_rank"), std::int64_t{c.o_groups} * c.o_lora_rank, name("dim"),
               c.dim);
  check_weight(name("index_n_heads") + " * " + name("index_head_dim"), std::int64_t{c.index_n_heads} * c.index_head_dim,
               name("q_lora_rank"), c.q_lora_rank);
}

void check_ratios(const V4Config& c, Names name) {
  const auto entries = static_cast<std::int64_t>(c.compress_ratios.size());
  const std::int64_t needed = static_cast<std::int64_t>(c.n_layers) + c.n_draft_layers;
  if (entries != needed) {
    refuse("{} has {} entries, expected {} ({} layers and {} draft layers)", name("compress_ratios"), entries, needed,
           c.n_layers, c.n_draft_layers);
  }
  for (int layer = 0; layer < c.layer_count(); ++layer) {
    if (c.ratio(layer) == 1) {
      refuse("{}[{}] is 1, expected 0 for a window layer, or at least 2", name("compress_ratios"), layer);
    }
    if (layer >= c.n_layers && c.ratio(layer) != 0) {
      refuse("{}[{}] is {}, expected 0: layers from {} on are draft layers", name("compress_ratios"), layer,
             c.ratio(layer), c.n_layers);
    }
  }
}

/// Entries of compress_ratios beyond the backbone belong to draft layers, whatever their number is said to be.
void read_draft_layers(ConfigReader& reader, Field& field, V4Config& c) {
  reader.read(field);
  const auto entries = static_cast<std::int64_t>(c.compress_ratios.size());
  const std::int64_t extra = std::clamp<std::int64_t>(entries - c.n_layers, 0, kMostDraftLayers);
  if (extra < c.n_draft_layers && entries >= c.n_layers) {
    c.compress_ratios.resize(static_cast<std::size_t>(c.n_layers + c.n_draft_layers), 0);
  }
  c.n_draft_layers = static_cast<int>(std::max<std::int64_t>(extra, c.n_draft_layers));
}

/// How transformers spells compress_ratios: a word per layer, and the ratio of each word.
void read_layer_types(ConfigReader& reader, V4Config& c) {
  const JsonObject& text = reader.text();
  reader.use(text, "layer_types");
  reader.use(text, "compress_rates");
  if (!text.has("layer_types")) return;
  constexpr const char* kSparse = "compressed_sparse_attention";
  constexpr const char* kDense = "heavily_compressed_attention";
  int sparse = 4, dense = 128;
  if (text.has("compress_rates")) {
    const JsonObject rates = text.object("compress_rates");
    for (const auto& [key, rate] : {std::pair{kSparse, &sparse}, {kDense, &dense}}) {
      reader.use(rates, key);
      if (rates.has(key)) *rate = static_cast<int>(rates.integer(key, 2, 4096));
    }
    reader.refuse_rest(rates);
  }
  std::vector<int> ratios;
  for (const std::string& type : text.texts("layer_types")) {
    if (type != "sliding_attention" && type != kSparse && type != kDense) {
      text.fail("layer_types[" + std::to_string(ratios.size()) + "]",
                "\"sliding_attention\", \"compressed_sparse_attention\" or \"heavily_compressed_attention\"");
    }
    ratios.push_back(type == kSparse ? sparse : type == kDense ? dense : 0);
  }
  if (text.has("compress_ratios") && c.compress_ratios != ratios) {
    text.fail("layer_types", "the layers of compress_ratios, " + text.found("compress_ratios"));
  }
  c.compress_ratios = ratios;
}

void read_ratios(ConfigReader& reader, Fields& fields, V4Config& c) {
  Field& field = field_of(fields, "compress_ratios");
  if (reader.text().has("layer_types")) field = field.without(Absent::plain);
  reader.read(field);
  read_layer_types(reader, c);
  read_draft_layers(reader, field_of(fields, "n_draft_layers"), c);
}

/// What this model cannot do otherwise.
void expect_the_rest(ConfigReader& reader, const V4Config& c) {
  reader.expect("model_type", {"\"deepseek_v4\""});
  reader.expect("scale_fmt", {"\"ue8m0\""});
  reader.expect("attention_bias", {"false"});
  reader.expect("num_key_value_heads", {"1", std::to_string(c.n_heads)});
  reader.expect_quantization("scale_fmt", {"\"ue8m0\""});
  expect_fp8_blocks(reader, kV4Block);
}

}  // namespace

V4Config read_v4_config(const JsonObject& document, const ReadOptions& options) {
  ConfigReader reader(document, document, options);
  V4Config c;
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
  read_all({"index_n_heads", "index_head_dim", "index_topk", "max_positions"});
  read_ratios(reader, fields, c);
  if (reader.spelling() == Spelling::inference) reader.read(field_of(fields, "weight_type"));
  expect_the_rest(reader, c);
  reader.finish({});
  check_config(c, reader.names());
  return c;
}

void check_config(const V4Config& config, const FieldNames& names) {
  V4Config c = config;
  check_ranges(fields_of(c), names);
  check_shape(c, names);
  check_yarn_theta(names("compress_rope_theta"), c.compress_rope_theta, c.original_seq_len);
  check_ratios(c, names);
}

V4Config effective_config(const V4Config& config) {
  const V4Config defaults;
  V4Config c = config;
  c.compress_ratios.resize(std::min(c.compress_ratios.size(), static_cast<std::size_t>(std::max(c.n_layers, 0))));
  const bool compresses = std::any_of(c.compress_ratios.begin(), c.compress_ratios.end(), [](int r) { return r > 0; });
  if (!compresses) c.compress_rope_theta = static_cast<double>(c.original_seq_len = 0);
  if (c.original_seq_len == 0) {
    c.rope_factor = defaults.rope_factor;
    c.beta_fast = defaults.beta_fast;
    c.beta_slow = defaults.beta_slow;
  }
  return c;
}

V4Config v4_flash_config() {
  V4Config c = {.dim = 4096,
                .n_layers = 43,
                .n_draft_layers = 1,
                .n_heads = 64,
                .head_dim = 512,
                .rope_head_dim = 64,
                .q_lora_rank = 1024,
                .o_groups = 8,
                .o_lora_rank = 1024,
                .window_size = 128,
                .rope_theta = 1e4,
                .compress_rope_theta = 1.6e5,
                .rope_factor = 16,
                .original_seq_len = 65536,
                .compress_ratios = {0, 0},
                .index_n_heads = 64,
                .index_head_dim = 128,
                .index_topk = 512,
                .max_positions = 1 << 20};
  for (int i = 0; i < 20; ++i) c.compress_ratios.insert(c.compress_ratios.end(), {4, 128});
  c.compress_ratios.insert(c.compress_ratios.end(), {4, 0});
  return c;
}

V4Config v4_pro_config() {
  V4Config c = v4_flash_config();
  c.dim = 7168;
  c.n_layers = 61;
  c.n_heads = 128;
  c.q_lora_rank = 1536;
  c.o_groups = 16;
  c.index_topk = 1024;
  c.compress_ratios = {128, 128};
  for (int i = 0; i < 29; ++i) c.compress_ratios.insert(c.compress_ratios.end(), {4, 128});
  c.compress_ratios.insert(c.compress_ratios.end(), {4, 0});
  return c;
}

V4Config v4_tiny_config() {
  return {.dim = 128,
          .n_layers = 5,
          .n_draft_layers = 1,
          .n_heads = 4,
          .head_dim = 80,
          .rope_head_dim = 16,
          .q_lora_rank = 128,
          .o_groups = 2,
          .o_lora_rank = 64,
          .window_size = 8,
          .rope_theta = 1e4,
          .compress_rope_theta = 1.6e5,
          .rope_factor = 4,
          .original_seq_len = 16,
          .compress_ratios = {0, 4, 16, 4, 5, 0},
          .index_n_heads = 4,
          .index_head_dim = 64,
          .index_topk = 8,
          .max_positions = 4096};
}

}  // namespace skim

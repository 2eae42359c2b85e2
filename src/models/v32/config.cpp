#include "models/v32/config.hpp"

#include <algorithm>
#include <bit>

#include "models/config_rules.hpp"

namespace skim {

Fields fields_of(V32Config& c) {
  const auto most = static_cast<double>(kMostExtent);
  return {
      number_field("dim", "hidden_size", &c.dim, 1, most),
      number_field("n_layers", "num_hidden_layers", &c.n_layers, 1, kMostLayers).used(Use::layers),
      draft_layers_field("num_nextn_predict_layers", &c.n_draft_layers),
      extent_field("n_heads", "num_attention_heads", &c.n_heads),
      extent_field("q_lora_rank", "q_lora_rank", &c.q_lora_rank),
      extent_field("kv_lora_rank", "kv_lora_rank", &c.kv_lora_rank),
      extent_field("qk_nope_head_dim", "qk_nope_head_dim", &c.qk_nope_head_dim),
      extent_field("qk_rope_head_dim", "qk_rope_head_dim", &c.qk_rope_head_dim),
      extent_field("v_head_dim", "v_head_dim", &c.v_head_dim),
      // The published inference code has defaults for what inference configurations leave out.
      number_field("norm_eps", "rms_norm_eps", &c.norm_eps, 0, 1).without(Absent::assumed, Absent::refused),
      number_field("rope_theta", "rope_theta", &c.rope_theta, 1, 1e12).without(Absent::assumed, Absent::refused),
      yarn_field("rope_factor", "factor", &c.rope_factor).without(Absent::assumed, Absent::refused),
      yarn_field("beta_fast", "beta_fast", &c.beta_fast).without(Absent::assumed),
      yarn_field("beta_slow", "beta_slow", &c.beta_slow).without(Absent::assumed),
      number_field("mscale", "mscale", &c.mscale, -1e6, 1e6).in(Place::rope_scaling).without(Absent::assumed),
      original_length_field(&c.original_seq_len).without(Absent::assumed, Absent::refused),
      extent_field("index_n_heads", "index_n_heads", &c.index_n_heads),
      extent_field("index_head_dim", "index_head_dim", &c.index_head_dim),
      extent_field("index_topk", "index_topk", &c.index_topk),
      scale_format_field(&c.ue8m0_scales),
      variant_field("index_rope_interleaved", "indexer_rope_interleave", &c.index_rope_interleaved),
      variant_field("index_hadamard", "", &c.index_hadamard),
      variant_field("latent_fp8", "", &c.latent_fp8),
      variant_field("indexer_types", "indexer_types", &c.indexer_types),
      max_positions_field(&c.max_positions),
      weight_type_field(&c.weight_type),
  };
}

namespace {

using Names = const FieldNames&;

/// Bounds the number of letters of a pattern, and of layers.
std::vector<IndexerType> pattern_of(ConfigReader& reader, const V32Config& c) {
  constexpr std::string_view kKey = "index_topk_pattern", kExpected = "letters F and S, one for each layer";
  const JsonObject& text = reader.text();
  std::vector<IndexerType> types;
  const JsonValue& value = text.fields().find(kKey)->second;
  if (value.text() != nullptr) {
    for (const char letter : *value.text()) {
      if (letter != 'F' && letter != 'S') text.fail(kKey, kExpected);
      types.push_back(letter == 'F' ? IndexerType::full : IndexerType::shared);
    }
  } else {
    for (const std::string& word : text.texts(kKey)) {
      const bool full = word == "full" || word == "F";
      if (!full && word != "shared" && word != "S") text.fail(kKey, "\"full\" or \"shared\" for each layer");
      types.push_back(full ? IndexerType::full : IndexerType::shared);
    }
  }
  if (static_cast<std::int64_t>(types.size()) != c.n_layers) {
    refuse("{} has {} entries, expected one for each of {} layers", text.path(kKey), types.size(), c.n_layers);
  }
  return types;
}

/// Layer i selects for itself if max(i - offset + 1, 0) is a multiple of freq: transformers, SGLang and vLLM.
std::vector<IndexerType> periodic_types(ConfigReader& reader, const V32Config& c) {
  const JsonObject& text = reader.text();
  const auto number = [&](std::string_view key, std::int64_t usual) {
    return text.has(key) ? text.integer(key, 1, kMostExtent) : usual;
  };
  const std::int64_t freq = number("index_topk_freq", 1);
  if (freq == 1) return {};  // whatever the offset
  const std::int64_t offset = number("index_skip_topk_offset", 2);
  std::vector<IndexerType> types;
  for (int layer = 0; layer < c.n_layers; ++layer) {
    const bool full = std::max<std::int64_t>(layer - offset + 1, 0) % freq == 0;
    types.push_back(full ? IndexerType::full : IndexerType::shared);
  }
  return types;
}

void check_rope(const V32Config& c, Names name) {
  check_yarn_theta(name("rope_theta"), c.rope_theta, c.original_seq_len);
}

void check_index(const V32Config& c, Names name) {
  if (!std::has_single_bit(static_cast<unsigned>(c.index_head_dim)) || c.index_head_dim > 128) {
    refuse("{} is {}, expected a power of two (Hadamard transform) of at most 128 (one scale per key)",
           name("index_head_dim"), c.index_head_dim);
  }
  check_weight(name("index_n_heads") + " * " + name("index_head_dim"), std::int64_t{c.index_n_heads} * c.index_head_dim,
               name("q_lora_rank"), c.q_lora_rank);
  check_weight(name("index_n_heads"), c.index_n_heads, name("dim"), c.dim);
  if (c.qk_rope_head_dim > c.index_head_dim) {
    refuse("{} is {}, more than {} {}", name("qk_rope_head_dim"), c.qk_rope_head_dim, name("index_head_dim"),
           c.index_head_dim);
  }
}

void check_indexer_types(const V32Config& c, Names name) {
  if (c.indexer_types.empty()) return;
  if (static_cast<std::int64_t>(c.indexer_types.size()) != c.n_layers) {
    refuse("{} has {} entries, expected one for each of {} layers", name("indexer_types"), c.indexer_types.size(),
           c.n_layers);
  }
  if (c.indexer_types.front() != IndexerType::full) {
    refuse("{}[0] is \"shared\", expected \"full\": no earlier layer selects", name("indexer_types"));
  }
}

/// Relatives of V3.2 that this library does not compute.
void check_variant(const V32Config& c, Names name) {
  const auto expect = [&](const char* field, bool value, bool expected) {
    if (value != expected) refuse("{} is {}, expected {}: V3.2's own is computed", name(field), value, expected);
  };
  expect("index_rope_interleaved", c.index_rope_interleaved, false);
  expect("index_hadamard", c.index_hadamard, true);
  expect("latent_fp8", c.latent_fp8, true);
  const auto shared = std::find(c.indexer_types.begin(), c.indexer_types.end(), IndexerType::shared);
  if (shared == c.indexer_types.end()) return;
  refuse("{}[{}] is \"shared\", expected \"full\": V3.2's layers select for themselves", name("indexer_types"),
         shared - c.indexer_types.begin());
}

}  // namespace

void read_indexer_types(ConfigReader& reader, Field& field, V32Config& c) {
  for (const char* key : {"index_topk_pattern", "index_topk_freq", "index_skip_topk_offset"}) {
    reader.use(reader.text(), key);
  }
  reader.read(field);
  if (!reader.text().has(field.inference)) {
    const bool pattern = reader.text().has("index_topk_pattern");
    c.indexer_types = pattern ? pattern_of(reader, c) : periodic_types(reader, c);
  } else if (c.indexer_types.empty()) {
    reader.text().fail(field.inference, "\"full\" or \"shared\" for each layer");
  }
  FieldNames names = reader.names();
  check_indexer_types(c, names);
  const auto& types = c.indexer_types;
  if (std::find(types.begin(), types.end(), IndexerType::shared) == types.end()) c.indexer_types.clear();
}

void read_mla_shape(ConfigReader& reader, Fields& fields) {
  for (const char* name :
       {"dim", "n_layers", "n_draft_layers", "n_heads", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
        "qk_rope_head_dim", "v_head_dim", "norm_eps", "index_n_heads", "index_head_dim", "index_topk",
        "index_rope_interleaved", "index_hadamard", "latent_fp8", "max_positions"}) {
    reader.read(field_of(fields, name));
  }
  if (reader.spelling() == Spelling::inference) reader.read(field_of(fields, "weight_type"));
}

void expect_plain_mla(ConfigReader& reader, const V32Config& c) {
  const std::int64_t heads = c.n_heads, width = std::int64_t{c.qk_nope_head_dim} + c.qk_rope_head_dim;
  reader.expect("attention_bias", {"false"});
  reader.expect("num_key_value_heads", {fmt::format("{}", heads), "1"});
  reader.expect("qk_head_dim", {fmt::format("{}", width)});
  reader.expect("rope_interleave", {"true"});
  reader.expect("index_kpool", {"1", "0"});
  reader.expect("mla_use_nope", {"false"});
  expect_fp8_blocks(reader, kV32Block);
}

V32Config read_v32_config(const JsonObject& document, const ReadOptions& options) {
  if (document.has("model_type") && document.text("model_type") != kV32Model) {
    document.fail("model_type", fmt::format("\"{}\"", kV32Model));
  }
  if (document.has("text_config")) document.fail("text_config", "nothing: this model's fields are not nested");
  ConfigReader reader(document, document, options);
  V32Config c;
  Fields fields = fields_of(c);
  read_mla_shape(reader, fields);
  read_rope(reader,
            {field_of(fields, "rope_theta"), field_of(fields, "rope_factor"), field_of(fields, "beta_fast"),
             field_of(fields, "beta_slow"), field_of(fields, "original_seq_len"), &field_of(fields, "mscale")},
            c.qk_rope_head_dim / (static_cast<double>(c.qk_nope_head_dim) + c.qk_rope_head_dim));
  Field& scale_format = field_of(fields, "ue8m0_scales");
  if (options.is_recording) {  // the published code takes what is left out for float32
    scale_format = scale_format.without(Absent::plain);
    c.ue8m0_scales = false;
  }
  reader.read(scale_format);
  read_indexer_types(reader, field_of(fields, "indexer_types"), c);
  expect_plain_mla(reader, c);
  reader.finish(kHarmlessMlaKeys);
  check_config(c, reader.names());
  return c;
}

void check_mla_shape(const V32Config& c, Names name) {
  check_multiple(name("kv_lora_rank"), c.kv_lora_rank, "quantization group of latents", 128);
  check_multiple(name("qk_rope_head_dim"), c.qk_rope_head_dim, "pairs are rotated", 2);
  const std::int64_t heads = c.n_heads, nope = c.qk_nope_head_dim;
  const std::string times = name("n_heads") + " * ", begin = times + "(" + name("qk_nope_head_dim") + " + ";
  check_weight(begin + name("qk_rope_head_dim") + ")", heads * (nope + c.qk_rope_head_dim), name("q_lora_rank"),
               c.q_lora_rank);
  check_weight(begin + name("v_head_dim") + ")", heads * (nope + c.v_head_dim), name("kv_lora_rank"), c.kv_lora_rank);
  check_weight(times + name("v_head_dim"), heads * c.v_head_dim, name("dim"), c.dim);
}

void check_config(const V32Config& config, const FieldNames& names) {
  V32Config c = config;
  check_ranges(fields_of(c), names);
  check_mla_shape(c, names);
  check_rope(c, names);
  check_index(c, names);
  check_indexer_types(c, names);
  check_variant(c, names);
}

V32Config effective_config(const V32Config& config, std::int64_t max_tokens) {
  const V32Config defaults;
  V32Config c = config;
  if (!c.uses_yarn(max_tokens)) {
    c.original_seq_len = 0;
    c.rope_factor = defaults.rope_factor;
    c.beta_fast = defaults.beta_fast;
    c.beta_slow = defaults.beta_slow;
    c.mscale = defaults.mscale;
  }
  return c;
}

V32Config v32_config() {
  return {.dim = 7168,
          .n_layers = 61,
          .n_heads = 128,
          .q_lora_rank = 1536,
          .kv_lora_rank = 512,
          .qk_nope_head_dim = 128,
          .qk_rope_head_dim = 64,
          .v_head_dim = 128,
          .index_n_heads = 64,
          .index_head_dim = 128,
          .index_topk = 2048,
          .max_positions = 163840};
}

V32Config v32_tiny_config() {
  return {.dim = 128,
          .n_layers = 2,
          .n_heads = 4,
          .q_lora_rank = 64,
          .kv_lora_rank = 128,
          .qk_nope_head_dim = 32,
          .qk_rope_head_dim = 16,
          .v_head_dim = 32,
          .rope_factor = 4,
          .original_seq_len = 16,
          .index_n_heads = 4,
          .index_head_dim = 64,
          .index_topk = 8,
          .max_positions = 4096};
}

}  // namespace skim

#include "models/config_reader.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"

namespace skim {
namespace {

/// Parts of names that speak of attention.
constexpr std::string_view kAttentionWords[] = {
    "rope", "rotary",   "index",  "attn",  "attention", "head",        "lora",      "window",     "compress", "kv",
    "qk",   "scale",    "norm",   "topk",  "sink",      "yarn",        "mscale",    "bias",       "quant",    "nope",
    "mla",  "hadamard", "latent", "alibi", "position",  "layer_types", "candidate", "text_config"};

/// Parts of names whose integer 1 is a factor, not a switch.
constexpr std::string_view kFactorWords[] = {"factor", "scal", "freq", "pool", "mult", "interval", "coef"};

/// Names that speak of attention and mean something else: experts, residual streams, memories, draft modules, other
/// inputs than text, training, and which kernels another engine uses.
constexpr std::string_view kHarmless[] = {"_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "_attn_implementation_internal",
                                          "attn_implementation",
                                          "attention_dropout",
                                          "hc_sinkhorn_iters",
                                          "mlp_bias",
                                          "mlp_layer_types",
                                          "norm_topk_prob",
                                          "topk_group",
                                          "topk_method",
                                          "image_token_index",
                                          "video_token_index",
                                          "quantization_status",
                                          "route_scale"};
constexpr std::string_view kHarmlessPrefixes[] = {"audio_", "dspark_", "engram_", "expert_", "image_",
                                                  "moe_",   "router_", "video_",  "vision_"};

template <class List>
bool holds_any(std::string_view text, const List& words) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

template <class List>
bool contains(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

bool is_harmless(std::string_view key) {
  return contains(kHarmless, key) || std::any_of(std::begin(kHarmlessPrefixes), std::end(kHarmlessPrefixes),
                                                 [&](std::string_view prefix) { return key.starts_with(prefix); });
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool says_nothing(const JsonObject& object, std::string_view key) {
  return object.says_nothing(key, holds_any(lower(key), kFactorWords));
}

[[noreturn]] void refuse_key(const JsonObject& object, std::string_view key) {
  object.fail(key, "no such field: skim does not know it, and it may change what attention computes");
}

bool is_within(const JsonObject& text, const JsonObject& document) { return text.path("") != document.path(""); }

/// Hugging Face's names, or those of the inference configuration.
Spelling spelling_of(const JsonObject& document, const JsonObject& text) {
  const bool released = is_within(text, document) || text.has("hidden_size") || text.has("num_hidden_layers");
  return released ? Spelling::released : Spelling::inference;
}

struct ValueReader {
  const JsonObject& object;
  std::string_view key;
  const Field& field;

  std::int64_t integer() const {
    return object.integer(key, static_cast<std::int64_t>(field.low), static_cast<std::int64_t>(field.high));
  }
  void operator()(int* value) const { *value = static_cast<int>(integer()); }
  void operator()(std::int64_t* value) const { *value = integer(); }
  void operator()(double* value) const { *value = object.number(key, field.low, field.high); }
  void operator()(bool* value) const {
    if (!field.is_scale_format) {
      *value = object.boolean(key);
    } else if (!object.has(key)) {
      *value = false;
    } else if (object.text(key) == "ue8m0") {
      *value = true;
    } else {
      object.fail(key, "\"ue8m0\" or null");
    }
  }
  void operator()(std::vector<int>* value) const { *value = object.integers(key); }
  void operator()(std::vector<IndexerType>* value) const {
    value->clear();
    for (const std::string& type : object.texts(key)) {
      if (type != "full" && type != "shared") {
        refuse("{}[{}] is \"{}\", expected \"full\" or \"shared\"", object.path(key), value->size(), shortened(type));
      }
      value->push_back(type == "full" ? IndexerType::full : IndexerType::shared);
    }
  }
  void operator()(WeightType* value) const {
    const std::string type = object.text(key);
    if (type != "fp8" && type != "bf16") object.fail(key, "\"fp8\" or \"bf16\"");
    *value = type == "bf16" ? WeightType::bf16 : WeightType::fp8;
  }
};

}  // namespace

ConfigReader::ConfigReader(const JsonObject& document, const JsonObject& text, const ReadOptions& options)
    : document_(document),
      text_(text),
      is_nested_(is_within(text, document)),
      options_(options),
      spelling_(spelling_of(document, text)) {
  for (const JsonObject* object : {&document_, &text_}) {
    use(*object, "quantization_config");
    if (object->has("quantization_config")) quantizations_.push_back(object->object("quantization_config"));
    if (!is_nested_) break;
  }
  if (is_nested_) use(document_, "text_config");
}

void ConfigReader::use(const JsonObject& object, std::string_view key) { used_.insert(object.path(key)); }

bool ConfigReader::is_said(const std::vector<Candidate>& places) const {
  return std::any_of(places.begin(), places.end(), [](const Candidate& c) { return c.object.has(c.key); });
}

void ConfigReader::read(Field& field) {
  std::vector<Candidate> places;
  const auto add = [&](const JsonObject& object, std::string_view key) {
    const bool known = std::any_of(places.begin(), places.end(),
                                   [&](const Candidate& c) { return c.object.path(c.key) == object.path(key); });
    if (!key.empty() && !known) places.push_back({object, std::string(key)});
  };
  if (field.place == Place::quantization) {
    for (const JsonObject& quantization : quantizations_) add(quantization, field.released);
    add(text_, field.inference);
    if (is_nested_) add(document_, field.inference);
  } else {
    add(text_, field.spelt(spelling_));
    add(text_, field.inference);
    add(text_, field.released);
  }
  read(field, places, field.absent(spelling_));
}

void ConfigReader::read(Field& field, const std::vector<Candidate>& places, Absent absent) {
  const Candidate* found = nullptr;
  for (const Candidate& place : places) {
    use(place.object, place.key);
    const bool said = field.is_scale_format ? place.object.contains(place.key) : place.object.has(place.key);
    if (!said) continue;
    if (found == nullptr) {
      found = &place;
      take(field, place);
    } else if (!place.object.same(place.key, found->object, found->key)) {
      place.object.fail(place.key, fmt::format("the value of {}, {}", found->object.path(found->key),
                                               found->object.found(found->key)));
    }
  }
  if (found != nullptr) return;
  const Candidate& first = places.front();
  names_.set(field.name, first.object.path(first.key));
  if (absent == Absent::refused) take(field, first);
  if (absent == Absent::assumed) {
    assume(fmt::format("{}: {}", first.object.path(first.key), field.is_scale_format ? "ue8m0" : field.text()));
  }
}

void ConfigReader::take(Field& field, const Candidate& place) {
  names_.set(field.name, place.object.path(place.key));
  std::visit(ValueReader{place.object, place.key, field}, field.value);
}

void ConfigReader::expect(const JsonObject& object, std::string_view key, const std::vector<std::string>& allowed) {
  use(object, key);
  if (!object.has(key)) return;
  for (const std::string& value : allowed) {
    if (object.equals(key, value)) return;
  }
  object.fail(key, fmt::format("{}", fmt::join(allowed, " or ")));
}

void ConfigReader::expect_quantization(std::string_view key, const std::vector<std::string>& allowed) {
  for (const JsonObject& quantization : quantizations_) expect(quantization, key, allowed);
}

void ConfigReader::assume(std::string line) {
  if (options_.assumed != nullptr) options_.assumed->push_back(std::move(line));
}

void ConfigReader::refuse_unknown(const JsonObject& object, std::span<const std::string_view> harmless) const {
  for (const auto& [key, value] : object.fields()) {
    if (used_.contains(object.path(key)) || is_harmless(key) || contains(harmless, key)) continue;
    if (holds_any(lower(key), kAttentionWords) && !says_nothing(object, key)) refuse_key(object, key);
  }
}

void ConfigReader::refuse_rest(const JsonObject& object) const {
  for (const auto& [key, value] : object.fields()) {
    if (!used_.contains(object.path(key)) && !says_nothing(object, key)) refuse_key(object, key);
  }
}

void ConfigReader::finish(std::span<const std::string_view> harmless) const {
  refuse_unknown(text_, harmless);
  for (const JsonObject& quantization : quantizations_) refuse_unknown(quantization, {});
  if (!is_nested_) return;
  // A multimodal document may repeat fields of its text_config; other ones would belong there.
  for (const auto& [key, value] : document_.fields()) {
    const bool known = used_.contains(document_.path(key)) || is_harmless(key) || contains(harmless, key);
    if (known || !holds_any(lower(key), kAttentionWords) || says_nothing(document_, key)) continue;
    if (!text_.has(key)) document_.fail(key, "to stand in text_config, or not at all");
    if (!document_.same(key, text_, key)) {
      document_.fail(key, fmt::format("the value of {}, {}", text_.path(key), text_.found(key)));
    }
  }
}

void expect_fp8_blocks(ConfigReader& reader, int block) {
  reader.expect_quantization("weight_block_size", {fmt::format("[{}, {}]", block, block)});
  reader.expect_quantization("quant_method", {"\"fp8\""});
  reader.expect_quantization("fmt", {"\"e4m3\""});
  reader.expect_quantization("activation_scheme", {"\"dynamic\""});
}

}  // namespace skim

// What the library asks of a model. Everything that knows one model lies in its folder src/models/<name>/, which ends
// in one `Family`; families.cpp is the list of them. Code outside src/models/ names no model: it reads a field of the
// configuration's family, or calls a function of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_names.hpp"
#include "formats/quantize.hpp"
#include "kernels/kernels.hpp"
#include "models/fields.hpp"
#include "models/recorded.hpp"
#include "skim/config.hpp"

namespace skim {

class JsonObject;
class LayerLoader;
struct LayerLayout;
struct LayerCall;
struct ReadOptions;
struct RopeParameters;

/// A configuration that has a name of its own.
struct NamedShape {
  std::string_view name;  ///< e.g. "v41-flash"
  Config (*config)();
};

/// How a checkpoint names the attention tensors of a layer: "layers." 7 ".attn." "wq_a.weight".
struct LayerNames {
  std::string_view before;        ///< In front of the layer's number.
  std::string_view before_draft;  ///< The same for draft layers, then counted from 0; empty: they are counted on.
  std::string_view after;         ///< Behind the number.
};

/// What can be said of any model in numbers.
struct ModelShape {
  std::int64_t dim = 0;      ///< Width of the hidden state.
  int layers = 0;            ///< Of the backbone.
  int draft_layers = 0;      ///< Counted on behind those.
  double norm_eps = 0;       ///< Of the norms behind projections.
  std::int64_t context = 0;  ///< Tokens that the released model is made for.

  int heads = 0;
  std::int64_t q_lora_rank = 0;
  std::int64_t head_width = 0;                  ///< Elements of a query, per head.
  std::int64_t rotated = 0;                     ///< Of these are rotated.
  std::int64_t key_width = 0, value_width = 0;  ///< Elements of a row that a query meets, and that are averaged.
  AttendRounding rounding = AttendRounding::exponentials;
  std::int64_t window = 0;  ///< Positions a query sees uncompressed; 0: the model has no window.

  int index_heads = 0;
  int topk = 0;                                             ///< Compressed positions a query attends to.
  int candidate_topk_blocks = 0, candidate_block_size = 0;  ///< 0: no layer chooses within candidate blocks.

  /// Caches for more tokens hold other rotations (YaRN) and scale logits otherwise; 0: no such limit.
  std::int64_t yarn_beyond = 0;
  Fp8Scale input_scale = Fp8Scale::pow2;     ///< Scales of quantized activations.
  WeightType weight_type = WeightType::fp8;  ///< Of made-up weights.
};

/// The weights of one layer, packed, and the order of its operations.
class LoadedLayer {
 public:
  virtual ~LoadedLayer() = default;
  virtual std::int64_t weight_bytes() const = 0;
  /// Runs all tokens of the batch through the layer. x, out: [tokens, dim]
  virtual void run(const LayerCall& call, View<const bf16, 2> x, View<bf16, 2> out) const = 0;
};

/// One family of models. Functions get a configuration of the family; unless they say otherwise it was checked.
struct Family {
  std::string_view model_type;        ///< In config.json and case files, e.g. "deepseek_v41".
  std::string_view other_model_type;  ///< That config.json may have too; empty: none.
  std::span<const NamedShape> named_shapes;
  LayerNames layer_names;
  ScaleFormat scales;                  ///< Of fp8 weights.
  std::string_view output_projection;  ///< The last weight of a layer, whose type decides how closely outputs agree.
  SelectionFormat selection_format;

  /// Whether a document without a model_type is of this family.
  bool (*recognizes)(const JsonObject& document);
  /// Reads config.json in either spelling and checks it. Throws Error{bad_config}; messages about fields that do not
  /// fit together lack the name of the document.
  Config (*read)(const JsonObject& document, const ReadOptions& options);
  /// Throws Error{bad_config} for fields that contradict one another or cannot be computed.
  void (*check)(const Config& config);
  /// A configuration with what is there if nothing is said.
  Config (*blank)();
  /// The table of its fields, which points into `config`.
  Fields (*fields)(Config& config);
  /// Sizes for people to read, as one or more lines.
  std::string (*describe)(const Config& config);
  /// The same without draft layers and without fields that have no effect in caches for `max_tokens` tokens.
  Config (*effective)(const Config& config, std::int64_t max_tokens);
  /// Also of a configuration that was not checked.
  ModelShape (*shape)(const Config& config);

  /// The layer exists.
  LayerRole (*role)(const Config& config, int layer);
  /// Every tensor the layer needs, scales left out, by its full name.
  std::vector<LayerTensor> (*tensors)(const Config& config, int layer);
  /// What the layer keeps per sequence.
  LayerLayout (*layout)(const Config& config, const LayerRole& role);
  /// Kinds that case files record, in order of computation.
  std::vector<RecordedKind> (*recorded)(const Config& config);
  /// Rotation of a layer. `yarn`: the cache is for more than ModelShape::yarn_beyond tokens.
  RopeParameters (*rope)(const Config& config, const LayerRole& role, bool yarn);
  /// Arena that a layer takes per token, without scores and tensors that only a trace sees.
  std::int64_t (*arena_bytes)(const Config& config, const LayerRole& role);
  /// Packs the tensors of a layer, which were found to be there and of the right shape and dtype.
  std::unique_ptr<const LoadedLayer> (*load)(const LayerLoader& load, const Config& config, const LayerRole& role);
};

/// All families.
std::span<const Family* const> families();
const Family& family_of(const Config& config);
/// Throws Error{invalid_argument} for a layer that does not exist.
void require_layer(const Config& config, int layer);
/// layer_role of a configuration that was checked, which takes time.
LayerRole role_of(const Config& config, int layer);
/// Null if there is none of this model_type.
const Family* find_family(std::string_view model_type);
/// What a message expects instead of an unknown model_type: each between `quote`s, e.g. "'a', 'b' or 'c'".
std::string known_model_types(std::string_view quote);

}  // namespace skim

// Fields that every model has, and rules that several of them share. Messages name the fields, what was found and what
// was expected.
#pragma once

#include <string>

#include "models/fields.hpp"

namespace skim {

inline Field draft_layers_field(std::string_view inference, int* value) {
  Field field = number_field("n_draft_layers", "num_nextn_predict_layers", value, 0, kMostDraftLayers);
  field.inference = inference;
  return field.without(Absent::plain).used(Use::storage);
}

/// A parameter of YaRN. Bounds keep frequencies, angles and softmax scales finite in float32.
inline Field yarn_field(std::string_view name, std::string_view released, double* value) {
  return number_field(name, released, value, 1e-6, 1e6).in(Place::rope_scaling);
}

inline Field original_length_field(std::int64_t* value) {
  return number_field("original_seq_len", "original_max_position_embeddings", value, 0, kMostPositions)
      .in(Place::rope_scaling);
}

inline Field max_positions_field(std::int64_t* value) {
  Field field = number_field("max_positions", "max_position_embeddings", value, 0, kMostPositions);
  field.inference = "max_seq_len";
  return field.without(Absent::plain).used(Use::storage);
}

/// scale_fmt. Whatever leaves it out was released with powers of two.
inline Field scale_format_field(bool* value) {
  Field field = plain_field("ue8m0_scales", "scale_fmt", "scale_fmt", value);
  field.is_scale_format = true;
  return field.in(Place::quantization).without(Absent::assumed);
}

/// A switch of later models, off in earlier ones.
inline Field variant_field(std::string_view name, std::string_view released, ConfigField::Value value) {
  return plain_field(name, name, released, value).without(Absent::plain).used(Use::variant);
}

inline Field weight_type_field(WeightType* value) {
  return plain_field("weight_type", "dtype", "", value).without(Absent::plain).used(Use::storage);
}

inline void check_multiple(const std::string& field, std::int64_t value, std::string_view of, std::int64_t divisor) {
  if (value % divisor != 0) refuse("{} is {}, expected a multiple of {} ({})", field, value, divisor, of);
}

/// Both are positive and below 2^48.
inline void check_weight(const std::string& out_field, std::int64_t out, const std::string& in_field, std::int64_t in) {
  if (out > kMostElements / in) {
    refuse("{} is {} and {} is {}: a weight of more than {} elements", out_field, out, in_field, in, kMostElements);
  }
}

/// YaRN divides by the logarithm of theta.
inline void check_yarn_theta(const std::string& field, double theta, std::int64_t original_seq_len) {
  if (original_seq_len > 0 && theta <= 1) {
    refuse("{} is {:g}, expected more than 1 with YaRN (original_seq_len {})", field, theta, original_seq_len);
  }
}

}  // namespace skim

// Reads a configuration out of a JSON document and keeps account of every key in it: a document is understood or
// refused.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.hpp"
#include "models/fields.hpp"

namespace skim {

/// A key of an object, which may be absent.
struct Candidate {
  JsonObject object;
  std::string key;
};

/// How a family reads documents.
struct ReadOptions {
  /// Whether a recording is read (docs/cases.md), in which `scale_fmt` left out means what the published code makes of
  /// it.
  bool is_recording = false;
  /// Gets a line for whatever the document leaves out and is assumed; may be null.
  std::vector<std::string>* assumed = nullptr;
};

class ConfigReader {
 public:
  /// `text` is where the fields are: `document` itself or its text_config.
  ConfigReader(const JsonObject& document, const JsonObject& text, const ReadOptions& options);

  const JsonObject& text() const { return text_; }
  Spelling spelling() const { return spelling_; }
  const FieldNames& names() const { return names_; }

  /// Reads a field from wherever its names may stand. Throws if it is not there and has to be, has another type or is
  /// out of range, or if two places contradict one another.
  void read(Field& field);
  /// The same for these places; the first is named if none has it.
  void read(Field& field, const std::vector<Candidate>& places, Absent absent);
  /// Whether one of the places has a value.
  bool is_said(const std::vector<Candidate>& places) const;

  /// Takes note of a key that was looked at elsewhere.
  void use(const JsonObject& object, std::string_view key);
  /// `key` may only have one of these values, in JSON, or be null or absent.
  void expect(const JsonObject& object, std::string_view key, const std::vector<std::string>& allowed);
  void expect(std::string_view key, const std::vector<std::string>& allowed) { expect(text_, key, allowed); }
  /// The same in each quantization_config.
  void expect_quantization(std::string_view key, const std::vector<std::string>& allowed);
  /// Says that something was assumed.
  void assume(std::string line);

  /// Refuses every field that was not read, is not `harmless`, speaks of attention and says something.
  void finish(std::span<const std::string_view> harmless) const;
  /// The same for an object in which every field matters, whatever its name.
  void refuse_rest(const JsonObject& object) const;

 private:
  void take(Field& field, const Candidate& place);
  void refuse_unknown(const JsonObject& object, std::span<const std::string_view> harmless) const;

  JsonObject document_, text_;
  bool is_nested_;
  ReadOptions options_;
  Spelling spelling_;
  std::vector<JsonObject> quantizations_;
  FieldNames names_;
  std::set<std::string> used_;  ///< Paths.
};

/// Refuses a quantization_config that is not of fp8 weights in blocks of `block` x `block` with scales, and activations
/// quantized as they come.
void expect_fp8_blocks(ConfigReader& reader, int block);

/// The fields that say how positions are rotated. Models without mscale leave it null, without a second table
/// compress_theta.
struct RopeFields {
  Field &theta, &factor, &beta_fast, &beta_slow, &original_seq_len;
  Field* mscale = nullptr;
  Field* compress_theta = nullptr;
};

/// Reads them from a document's own fields, rope_scaling and rope_parameters. Every parameter of these is understood or
/// refused. `rotated_part` is the fraction of a head that is rotated.
void read_rope(ConfigReader& reader, const RopeFields& fields, double rotated_part);

}  // namespace skim

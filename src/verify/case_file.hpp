// Recordings of another implementation (docs/cases.md): configuration, calls, and what each layer produced.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/family.hpp"
#include "skim/checkpoint.hpp"
#include "skim/safetensors.hpp"

namespace skim {

struct CaseCall {
  std::int64_t start_pos = 0;
  std::int64_t seqlen = 0;
  int batch = 0;
  bool reset = false;
};

/// A recorded tensor of one call and layer, first axis the sequence, second axis the recorded rows.
struct RecordedTensor {
  std::string name;  ///< Full name in the file.
  Tensor tensor;
  std::vector<std::int64_t> rows;  ///< Row of the call (or group closed by it, or ring slot) that each recorded row is.
  std::int64_t width = 0;          ///< Elements per row.

  std::int64_t row_count() const { return static_cast<std::int64_t>(rows.size()); }
  /// Row `i` of sequence `sequence`, widened. BF16, F32 or F8_E4M3.
  std::vector<float> floats(int sequence, std::int64_t i) const;
  /// The same for I32 or I64.
  std::vector<std::int64_t> integers(int sequence, std::int64_t i) const;
  /// The same for BOOL.
  std::vector<bool> booleans(int sequence, std::int64_t i) const;
};

class CaseFile {
 public:
  /// Throws Error{bad_file, bad_config} for metadata that cannot be replayed.
  explicit CaseFile(const SafetensorsFile& file);

  const std::string& name() const { return name_; }
  const Config& config() const { return config_; }
  const ModelShape& shape() const { return shape_; }
  /// Of tensors that the model's recordings hold, in order of computation.
  std::span<const RecordedKind> kinds() const { return kinds_; }
  /// Null if the model has no such kind.
  const RecordedKind* find_kind(std::string_view name) const;
  const RecordedKind* find_kind(RecordedUse use) const;
  const std::vector<CaseCall>& calls() const { return calls_; }
  const std::vector<int>& layers() const { return layers_; }  ///< To be replayed, ascending.
  std::int64_t longest() const;                               ///< Tokens that the longest sequence ends up with.
  /// Context the recorded caches were made for, which decides on V3.2's YaRN; otherwise as much as is needed.
  std::int64_t max_tokens() const { return max_tokens_; }

  /// Hidden states of a call, bf16 [batch, seqlen, dim]; recorded, or filler/1.
  Tensor input(std::int64_t call, int layer) const;
  /// `what` is the name of a kind. Nothing if it was not recorded. Rows hold `width` elements (-1: any number). Throws
  /// Error{bad_file} for a shape or dtype that does not fit.
  std::optional<RecordedTensor> recorded(std::int64_t call, int layer, std::string_view what, RowMeaning meaning,
                                         std::int64_t width) const;
  bool has(std::int64_t call, int layer, std::string_view what) const;
  /// Names of tensors that no replay looks at: an unknown kind, or a call or layer that is not replayed.
  std::vector<std::string> ignored() const;

 private:
  std::string metadata(const std::string& key) const;
  void read_calls();
  void read_layers();
  void read_rows();
  void read_max_tokens();
  void check_inputs() const;
  std::vector<std::int64_t> row_numbers(std::int64_t call, int layer, const std::string& tensor, RowMeaning meaning,
                                        std::int64_t count) const;

  SafetensorsFile file_;
  std::string name_;
  Config config_;
  ModelShape shape_;
  std::vector<RecordedKind> kinds_;
  std::int64_t max_tokens_ = 0;
  std::vector<CaseCall> calls_;
  std::vector<int> layers_;
  std::vector<std::vector<std::int64_t>> kept_rows_;  ///< By call: rows that were kept; empty: all.
  bool filler_inputs_ = false;
  std::string tag_;
};

}  // namespace skim

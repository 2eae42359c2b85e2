// Recordings of another implementation (docs/cases.md): configuration, calls, and what each layer produced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/family.hpp"
#include "skim/checkpoint.hpp"
#include "skim/safetensors.hpp"
#include "verify/recorded_tensor.hpp"

namespace skim {

struct CaseCall {
  std::int64_t start_pos = 0;
  std::int64_t seqlen = 0;
  int batch = 0;
  bool reset = false;
};

class CaseFile {
 public:
  /// Throws Error{bad_file, bad_config} for metadata that cannot be replayed and for tensors of unknown name.
  explicit CaseFile(const SafetensorsFile& file);

  const std::string& name() const { return name_; }
  const Config& config() const { return config_; }
  const ModelShape& shape() const { return shape_; }
  const std::vector<RecordedKind>& kinds() const { return kinds_; }  ///< In order of computation.
  /// Null if the model has none.
  const RecordedKind* find_kind(std::string_view name) const;
  const RecordedKind* find_kind(RecordedUse use) const;
  const std::vector<CaseCall>& calls() const { return calls_; }
  const std::vector<int>& layers() const { return layers_; }  ///< To be replayed, ascending.
  std::int64_t longest() const;                               ///< Tokens that the longest sequence ends up with.
  /// Context the recorded caches were made for, which decides on V3.2's YaRN; otherwise as much as is needed.
  std::int64_t max_tokens() const { return max_tokens_; }
  int world_size() const { return world_size_; }  ///< Ranks that the recorded implementation ran on.

  /// Hidden states of a call, bf16 [batch, seqlen, dim]; recorded, or filler/1.
  Tensor input(std::int64_t call, int layer) const;
  /// Nothing if it was not recorded, or has no rows. Throws Error{bad_file} for a shape or dtype that does not fit.
  std::optional<RecordedTensor> recorded(std::int64_t call, int layer, const RecordedKind& kind) const;
  std::optional<RecordedTensor> recorded(std::int64_t call, int layer, std::string_view kind) const;
  bool has(std::int64_t call, int layer, std::string_view what) const;
  /// Names of tensors of a call or layer that is not replayed, or that readers pass over.
  std::vector<std::string> ignored() const;
  /// Names of tensors of the replayed calls and layers that have no rows.
  std::vector<std::string> empty() const;

 private:
  std::string metadata(const std::string& key) const;
  void read_calls();
  void read_layers();
  void read_rows();
  void read_max_tokens();
  void read_world_size();
  void check_inputs() const;
  void check_names() const;
  bool is_replayed(std::int64_t call, int layer) const;
  /// Rows of the call, or groups that it closes, before any were left out.
  std::int64_t rows_of(std::int64_t call, int layer, const RecordedKind& kind) const;
  std::int64_t width_of(std::int64_t call, int layer, const RecordedKind& kind) const;
  std::vector<std::int64_t> row_numbers(std::int64_t call, int layer, const RecordedTensor& recorded,
                                        const RecordedKind& kind) const;

  SafetensorsFile file_;
  std::string name_;
  Config config_;
  ModelShape shape_;
  std::vector<RecordedKind> kinds_;
  std::int64_t max_tokens_ = 0;
  int world_size_ = 1;
  std::vector<CaseCall> calls_;
  std::vector<int> layers_;
  std::vector<std::vector<std::int64_t>> kept_rows_;  ///< By call: rows that were kept; empty: all.
  bool filler_inputs_ = false;
  std::string tag_;
};

}  // namespace skim

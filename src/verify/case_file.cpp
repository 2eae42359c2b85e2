#include "verify/case_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/dtype.hpp"
#include "base/text.hpp"
#include "checkpoint/case_format.hpp"
#include "files/json.hpp"
#include "skim/error.hpp"
#include "verify/case_names.hpp"

namespace skim {
namespace {

constexpr std::int64_t kMostTokens = 1 << 22;  // per sequence; more than any model's context
constexpr std::int64_t kMostSequences = 1 << 12;
constexpr std::int64_t kMostInputElements = std::int64_t{1} << 28;  // of one call and layer

/// Whether "BF16 or F32" names a dtype.
bool is_listed(DType dtype, std::string_view words) {
  const std::string_view name = dtype_name(dtype);
  const std::size_t found = words.find(name);
  if (found == std::string_view::npos) return false;
  const std::size_t end = found + name.size();
  return (found == 0 || words[found - 1] == ' ') && (end == words.size() || words[end] == ' ');
}

std::vector<std::string_view> names_of(const std::vector<RecordedKind>& kinds) {
  std::vector<std::string_view> names = {"x"};
  for (const RecordedKind& kind : kinds) names.push_back(kind.name);
  return names;
}

bool has_no_rows(const std::vector<std::int64_t>& shape) { return shape.size() >= 2 && shape[1] == 0; }

}  // namespace

CaseFile::CaseFile(const SafetensorsFile& file) : file_(file), name_(file.path().string()) {
  if (metadata("format") != kCaseFormat) {
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: format is '{}', expected '{}'", name_, shortened(metadata("format")), kCaseFormat));
  }
  config_ = parse_case_config(metadata("model"), metadata("config"), name_);
  shape_ = family_of(config_).shape(config_);
  kinds_ = family_of(config_).recorded(config_);
  read_calls();
  read_max_tokens();
  read_world_size();
  if (file_.metadata().contains("inputs")) {
    if (metadata("inputs") != "filler/1") {
      throw Error(ErrorCode::bad_file,
                  fmt::format("{}: inputs are '{}', expected 'filler/1'", name_, shortened(metadata("inputs"))));
    }
    filler_inputs_ = true;
    tag_ = metadata("tag");
  }
  read_layers();
  read_rows();
  check_names();
  check_inputs();
}

std::string CaseFile::metadata(const std::string& key) const {
  const auto found = file_.metadata().find(key);
  if (found == file_.metadata().end()) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: metadata has no '{}', expected in a case file", name_, key));
  }
  return found->second;
}

void CaseFile::read_calls() {
  const std::string where = name_ + ": calls";
  const JsonValue list = parse_json(metadata("calls"), where, ErrorCode::bad_file);
  if (list.array() == nullptr || list.array()->empty()) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: expected a list of at least one call", where));
  }
  std::int64_t length = 0;
  int batch = 0;
  for (const JsonValue& entry : *list.array()) {
    const std::string call_name = fmt::format("{}[{}]", where, calls_.size());
    const JsonObject object(entry, call_name, ErrorCode::bad_file);
    CaseCall call{object.integer("start_pos", 0, kMostTokens), object.integer("seqlen", 1, kMostTokens),
                  static_cast<int>(object.integer("batch", 1, kMostSequences)), object.boolean("reset")};
    if (calls_.empty() || call.reset) {
      length = 0;
      batch = call.batch;
    }
    if (call.start_pos != length || call.batch != batch) {
      throw Error(ErrorCode::bad_file,
                  fmt::format("{}: start_pos {} of {} sequences, but {} tokens of {} sequences came before", call_name,
                              call.start_pos, call.batch, length, batch));
    }
    length += call.seqlen;
    calls_.push_back(call);
  }
}

void CaseFile::read_layers() {
  std::set<int> layers;
  if (file_.metadata().contains("layers")) {
    const std::string where = name_ + ": layers";
    const JsonValue list = parse_json("{\"layers\":" + metadata("layers") + "}", where, ErrorCode::bad_file);
    for (const int layer : JsonObject(list, where, ErrorCode::bad_file).integers("layers")) layers.insert(layer);
  } else if (file_.metadata().contains("inputs")) {
    for (int layer = 0; layer < layer_count(config_); ++layer) layers.insert(layer);
  } else {
    for (const TensorInfo& info : file_.tensors()) {
      if (const auto parsed = parse_case_tensor_name(info.name); parsed && parsed->what == "x")
        layers.insert(parsed->layer);
    }
  }
  if (layers.empty()) throw Error(ErrorCode::bad_file, fmt::format("{}: no inputs call.0.layer.<i>.x", name_));
  for (const int layer : layers) layer_role(config_, layer);  // exists
  layers_.assign(layers.begin(), layers.end());
}

void CaseFile::read_rows() {
  kept_rows_.resize(calls_.size());
  for (std::size_t n = 0; n < calls_.size(); ++n) {
    const std::string name = fmt::format("call.{}.rows", n);
    if (!file_.contains(name)) continue;
    const Tensor tensor = file_.tensor(name);
    if (tensor.shape.size() != 1 || tensor.dtype != DType::i32 || tensor.shape[0] == 0) {
      throw Error(ErrorCode::bad_file, fmt::format("{}: {} is {} {}, expected a list of I32", name_, name,
                                                   dtype_name(tensor.dtype), tensor.shape_text()));
    }
    for (std::int64_t i = 0; i < tensor.shape[0]; ++i) {
      const std::int64_t row = tensor_element<std::int32_t>(tensor, i);
      if (row < (i == 0 ? 0 : kept_rows_[n].back() + 1) || row >= calls_[n].seqlen) {
        throw Error(ErrorCode::bad_file, fmt::format("{}: {}[{}] is {}, expected ascending rows below {}", name_, name,
                                                     i, row, calls_[n].seqlen));
      }
      kept_rows_[n].push_back(row);
    }
  }
}

std::int64_t CaseFile::longest() const {
  std::int64_t longest = 0;
  for (const CaseCall& call : calls_) longest = std::max(longest, call.start_pos + call.seqlen);
  return longest;
}

void CaseFile::read_max_tokens() {
  max_tokens_ = longest();
  if (shape_.yarn_beyond == 0) return;
  const std::string where = name_ + ": config";
  const JsonValue value = parse_json(metadata("config"), where, ErrorCode::bad_config);
  max_tokens_ = JsonObject(value, where, ErrorCode::bad_config).integer("max_seq_len", 1, kMostTokens);
  if (max_tokens_ < longest()) {
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: calls reach {} tokens, more than max_seq_len {}", name_, longest(), max_tokens_));
  }
}

void CaseFile::read_world_size() {
  const auto found = file_.metadata().find("world_size");
  if (found == file_.metadata().end()) return;
  const std::string where = name_ + ": world_size";
  const JsonValue value = parse_json("{\"world_size\":" + found->second + "}", where, ErrorCode::bad_file);
  world_size_ =
      static_cast<int>(JsonObject(value, where, ErrorCode::bad_file).integer("world_size", 1, kMostSequences));
}

/// A misspelt tensor would be judged by nobody.
void CaseFile::check_names() const {
  for (const TensorInfo& info : file_.tensors()) {
    if (info.name.starts_with("weights/") || info.name.starts_with("x_")) continue;
    if (const auto call = call_of_rows_name(info.name)) {
      if (*call < static_cast<std::int64_t>(calls_.size())) continue;
      throw Error(ErrorCode::bad_file, fmt::format("{}: {}, but there are {} calls", name_, info.name, calls_.size()));
    }
    const auto parsed = parse_case_tensor_name(info.name);
    if (!parsed) {
      throw Error(ErrorCode::bad_file,
                  fmt::format("{}: no tensor is called '{}', expected call.<n>.layer.<i>.<what>, call.<n>.rows, "
                              "weights/<name>, or a name that begins with x_",
                              name_, shortened(info.name)));
    }
    if (parsed->what == "x" || find_kind(parsed->what) != nullptr || is_passed_over(parsed->what)) continue;
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: {}: {} has no tensor '{}'; the nearest is '{}' (names that begin with x_ are passed "
                            "over)",
                            name_, shortened(info.name), model_type(config_), shortened(parsed->what),
                            nearest_name(parsed->what, names_of(kinds_))));
  }
}

void CaseFile::check_inputs() const {
  const std::int64_t dim = hidden_dim(config_);
  for (std::size_t n = 0; n < calls_.size(); ++n) {
    const std::vector<std::int64_t> shape = {calls_[n].batch, calls_[n].seqlen, dim};
    if (calls_[n].batch * calls_[n].seqlen > kMostInputElements / dim) {
      throw Error(ErrorCode::bad_file, fmt::format("{}: call {} has inputs of shape {}, expected at most {} elements",
                                                   name_, n, shape_text(shape), kMostInputElements));
    }
    for (std::size_t i = 0; !filler_inputs_ && i < layers_.size(); ++i) {
      const std::string name = case_tensor_name(static_cast<std::int64_t>(n), layers_[i], "x");
      if (!file_.contains(name)) throw Error(ErrorCode::bad_file, fmt::format("{}: no tensor {}", name_, name));
      const TensorInfo& info = file_.info(name);
      if (info.dtype == DType::bf16 && info.shape == shape) continue;
      throw Error(ErrorCode::bad_file, fmt::format("{}: {} is {} {}, expected BF16 {}", name_, name,
                                                   dtype_name(info.dtype), shape_text(info.shape), shape_text(shape)));
    }
  }
}

Tensor CaseFile::input(std::int64_t call, int layer) const {
  const CaseCall& c = calls_[static_cast<std::size_t>(call)];
  const std::string name = case_tensor_name(call, layer, "x");
  if (filler_inputs_) return synthetic_input(tag_ + "." + name, {c.batch, c.seqlen, hidden_dim(config_)});
  return file_.tensor(name);
}

const RecordedKind* CaseFile::find_kind(std::string_view name) const {
  const auto found =
      std::find_if(kinds_.begin(), kinds_.end(), [&](const RecordedKind& kind) { return kind.name == name; });
  return found != kinds_.end() ? &*found : nullptr;
}

const RecordedKind* CaseFile::find_kind(RecordedUse use) const {
  const auto found =
      std::find_if(kinds_.begin(), kinds_.end(), [&](const RecordedKind& kind) { return kind.use == use; });
  return found != kinds_.end() ? &*found : nullptr;
}

bool CaseFile::has(std::int64_t call, int layer, std::string_view what) const {
  return file_.contains(case_tensor_name(call, layer, what));
}

bool CaseFile::is_replayed(std::int64_t call, int layer) const {
  return call < static_cast<std::int64_t>(calls_.size()) && std::binary_search(layers_.begin(), layers_.end(), layer);
}

std::vector<std::string> CaseFile::ignored() const {
  std::vector<std::string> names;
  for (const TensorInfo& info : file_.tensors()) {
    if (info.name.starts_with("weights/") || call_of_rows_name(info.name)) continue;
    const auto parsed = parse_case_tensor_name(info.name);
    if (!parsed || is_passed_over(parsed->what) || !is_replayed(parsed->call, parsed->layer))
      names.push_back(info.name);
  }
  return names;
}

std::vector<std::string> CaseFile::empty() const {
  std::vector<std::string> names;
  for (const TensorInfo& info : file_.tensors()) {
    const auto parsed = parse_case_tensor_name(info.name);
    if (!parsed || find_kind(parsed->what) == nullptr || !is_replayed(parsed->call, parsed->layer)) continue;
    if (has_no_rows(info.shape)) names.push_back(info.name);
  }
  return names;
}

std::int64_t CaseFile::rows_of(std::int64_t call, int layer, const RecordedKind& kind) const {
  const CaseCall& c = calls_[static_cast<std::size_t>(call)];
  if (kind.meaning != RowMeaning::group) return c.seqlen;
  const int ratio = std::max(1, layer_role(config_, layer).ratio);
  return (c.start_pos + c.seqlen) / ratio - c.start_pos / ratio;
}

std::vector<std::int64_t> CaseFile::row_numbers(std::int64_t call, int layer, const RecordedTensor& recorded,
                                                const RecordedKind& kind) const {
  const std::int64_t count = recorded.tensor.shape[1];
  const bool ring = kind.meaning == RowMeaning::slot && calls_[static_cast<std::size_t>(call)].start_pos > 0;
  if (ring && count > shape_.window) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: {} has {} slots, expected at most window_size {}", name_,
                                                 recorded.name, count, shape_.window));
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(ring ? count : rows_of(call, layer, kind)));
  std::iota(all.begin(), all.end(), 0);
  if (count == static_cast<std::int64_t>(all.size())) return all;
  const std::vector<std::int64_t>& kept = kept_rows_[static_cast<std::size_t>(call)];
  if (kind.meaning == RowMeaning::token && !kept.empty()) all = kept;
  if (!kept.empty() && count <= static_cast<std::int64_t>(all.size())) return {all.end() - count, all.end()};
  throw Error(ErrorCode::bad_file,
              fmt::format("{}: {} has {} rows, expected {}", name_, recorded.name, count, all.size()));
}

std::optional<RecordedTensor> CaseFile::recorded(std::int64_t call, int layer, std::string_view kind) const {
  const RecordedKind* known = find_kind(kind);
  return known != nullptr ? recorded(call, layer, *known) : std::nullopt;
}

std::int64_t CaseFile::width_of(std::int64_t call, int layer, const RecordedKind& kind) const {
  if (kind.use != RecordedUse::scores && kind.use != RecordedUse::candidates) return kind.width;
  const LayerRole role = layer_role(config_, layer);
  const CaseCall& c = calls_[static_cast<std::size_t>(call)];
  return role.ratio > 0 && role.selects() ? (c.start_pos + c.seqlen) / role.ratio : -1;
}

std::optional<RecordedTensor> CaseFile::recorded(std::int64_t call, int layer, const RecordedKind& kind) const {
  const std::string name = case_tensor_name(call, layer, kind.name);
  if (!file_.contains(name)) return {};
  const CaseCall& c = calls_[static_cast<std::size_t>(call)];
  RecordedTensor recorded{name, file_.tensor(name), {}, 1};
  const Tensor& tensor = recorded.tensor;
  if (has_no_rows(tensor.shape)) return {};
  for (std::size_t axis = 2; axis < tensor.shape.size(); ++axis) recorded.width *= tensor.shape[axis];
  const std::int64_t width = width_of(call, layer, kind);
  if (tensor.shape.size() < 3 || tensor.shape[0] != c.batch || !is_listed(tensor.dtype, kind.dtypes) ||
      (width >= 0 && recorded.width != width)) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: {} is {} {}, expected {} sequences with rows of {} {}", name_,
                                                 name, dtype_name(tensor.dtype), tensor.shape_text(), c.batch,
                                                 width >= 0 ? std::to_string(width) : "any number of", kind.dtypes));
  }
  recorded.rows = row_numbers(call, layer, recorded, kind);
  return recorded;
}

}  // namespace skim

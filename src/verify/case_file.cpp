#include "verify/case_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <set>

#include "base/dtype.hpp"
#include "base/text.hpp"
#include "checkpoint/case_format.hpp"
#include "files/json.hpp"
#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"
#include "skim/error.hpp"

namespace skim {
namespace {

constexpr std::int64_t kMostTokens = 1 << 22;  // per sequence; more than any model's context
constexpr std::int64_t kMostSequences = 1 << 12;
constexpr std::int64_t kMostInputElements = std::int64_t{1} << 28;  // of one call and layer

bool dtype_fits(std::string_view dtypes, DType dtype) { return dtypes.find(dtype_name(dtype)) != std::string::npos; }

template <class T>
T element(const Tensor& tensor, std::int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

std::string tensor_name(std::int64_t call, int layer, std::string_view what) {
  return fmt::format("call.{}.layer.{}.{}", call, layer, what);
}

/// "call.<call>.layer.<layer>.<what>" taken apart.
struct RecordedName {
  std::int64_t call = 0;
  int layer = 0;
  std::string what;
};

/// Digits at the front of `text`, which then lose them; nothing if there are none or too many.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take_text(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

/// "call.<n>.rows" for one of the calls.
bool is_rows_name(std::string_view name, std::size_t calls) {
  if (!take_text(name, "call.")) return false;
  const std::optional<int> call = take_number(name);
  return call && static_cast<std::size_t>(*call) < calls && name == ".rows";
}

std::optional<RecordedName> parse_name(std::string_view name) {
  if (!take_text(name, "call.")) return {};
  const std::optional<int> call = take_number(name);
  if (!call || !take_text(name, ".layer.")) return {};
  const std::optional<int> layer = take_number(name);
  if (!layer || !take_text(name, ".")) return {};
  return RecordedName{*call, *layer, std::string(name)};
}

}  // namespace

std::vector<float> RecordedTensor::floats(int sequence, std::int64_t i) const {
  const std::int64_t first = (sequence * row_count() + i) * width;
  std::vector<float> values(static_cast<std::size_t>(width));
  for (std::int64_t k = 0; k < width; ++k) {
    float& value = values[static_cast<std::size_t>(k)];
    if (tensor.dtype == DType::f32) {
      value = element<float>(tensor, first + k);
    } else if (tensor.dtype == DType::f8_e4m3) {
      value = e4m3_to_float(element<std::uint8_t>(tensor, first + k));
    } else {
      value = to_float(element<bf16>(tensor, first + k));
    }
  }
  return values;
}

std::vector<std::int64_t> RecordedTensor::integers(int sequence, std::int64_t i) const {
  const std::int64_t first = (sequence * row_count() + i) * width;
  std::vector<std::int64_t> values(static_cast<std::size_t>(width));
  for (std::int64_t k = 0; k < width; ++k) {
    values[static_cast<std::size_t>(k)] = tensor.dtype == DType::i64 ? element<std::int64_t>(tensor, first + k)
                                                                     : element<std::int32_t>(tensor, first + k);
  }
  return values;
}

std::vector<bool> RecordedTensor::booleans(int sequence, std::int64_t i) const {
  const std::int64_t first = (sequence * row_count() + i) * width;
  std::vector<bool> values(static_cast<std::size_t>(width));
  for (std::int64_t k = 0; k < width; ++k) {
    values[static_cast<std::size_t>(k)] = element<std::uint8_t>(tensor, first + k) != 0;
  }
  return values;
}

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
  } else {
    for (const TensorInfo& info : file_.tensors()) {
      if (const auto parsed = parse_name(info.name); parsed && parsed->what == "x") layers.insert(parsed->layer);
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
      const std::int64_t row = element<std::int32_t>(tensor, i);
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

void CaseFile::check_inputs() const {
  const std::int64_t dim = hidden_dim(config_);
  for (std::size_t n = 0; n < calls_.size(); ++n) {
    const std::vector<std::int64_t> shape = {calls_[n].batch, calls_[n].seqlen, dim};
    if (calls_[n].batch * calls_[n].seqlen > kMostInputElements / dim) {
      throw Error(ErrorCode::bad_file, fmt::format("{}: call {} has inputs of shape {}, expected at most {} elements",
                                                   name_, n, shape_text(shape), kMostInputElements));
    }
    for (std::size_t i = 0; !filler_inputs_ && i < layers_.size(); ++i) {
      const std::string name = tensor_name(static_cast<std::int64_t>(n), layers_[i], "x");
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
  const std::string name = tensor_name(call, layer, "x");
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
  return file_.contains(tensor_name(call, layer, what));
}

std::vector<std::string> CaseFile::ignored() const {
  std::vector<std::string> names;
  for (const TensorInfo& info : file_.tensors()) {
    if (info.name.starts_with("weights/")) continue;
    const auto parsed = parse_name(info.name);
    const bool rows = is_rows_name(info.name, calls_.size());
    const bool known = parsed && parsed->call < static_cast<std::int64_t>(calls_.size()) &&
                       std::binary_search(layers_.begin(), layers_.end(), parsed->layer) &&
                       (parsed->what == "x" || find_kind(parsed->what) != nullptr);
    if (!rows && !known) names.push_back(info.name);
  }
  return names;
}

std::vector<std::int64_t> CaseFile::row_numbers(std::int64_t call, int layer, const std::string& tensor,
                                                RowMeaning meaning, std::int64_t count) const {
  const CaseCall& c = calls_[static_cast<std::size_t>(call)];
  const std::vector<std::int64_t>& kept = kept_rows_[static_cast<std::size_t>(call)];
  std::vector<std::int64_t> all(static_cast<std::size_t>(c.seqlen));
  if (meaning == RowMeaning::group) {
    const int ratio = std::max(1, layer_role(config_, layer).ratio);
    all.resize(static_cast<std::size_t>((c.start_pos + c.seqlen) / ratio - c.start_pos / ratio));
  }
  std::iota(all.begin(), all.end(), 0);
  if (count == static_cast<std::int64_t>(all.size())) return all;
  const bool thinned = meaning == RowMeaning::token && !kept.empty();
  if (thinned) all = kept;
  if (!kept.empty() && count <= static_cast<std::int64_t>(all.size())) {
    return {all.end() - count, all.end()};
  }
  throw Error(ErrorCode::bad_file, fmt::format("{}: {} has {} rows, expected {}", name_, tensor, count, all.size()));
}

std::optional<RecordedTensor> CaseFile::recorded(std::int64_t call, int layer, std::string_view what,
                                                 RowMeaning meaning, std::int64_t width) const {
  const std::string name = tensor_name(call, layer, what);
  if (!file_.contains(name)) return {};
  const CaseCall& c = calls_[static_cast<std::size_t>(call)];
  RecordedTensor recorded{name, file_.tensor(name), {}, 1};
  const Tensor& tensor = recorded.tensor;
  for (std::size_t axis = 2; axis < tensor.shape.size(); ++axis) recorded.width *= tensor.shape[axis];
  const std::string_view dtypes = find_kind(what)->dtypes;
  if (tensor.shape.size() < 3 || tensor.shape[0] != c.batch || !dtype_fits(dtypes, tensor.dtype) ||
      (width >= 0 && recorded.width != width)) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: {} is {} {}, expected {} sequences with rows of {} {}", name_,
                                                 name, dtype_name(tensor.dtype), tensor.shape_text(), c.batch,
                                                 width >= 0 ? std::to_string(width) : "any number of", dtypes));
  }
  if (meaning == RowMeaning::slot) {
    if (tensor.shape[1] > shape_.window) {
      throw Error(ErrorCode::bad_file, fmt::format("{}: {} has {} slots, expected at most window_size {}", name_, name,
                                                   tensor.shape[1], shape_.window));
    }
    recorded.rows.resize(static_cast<std::size_t>(tensor.shape[1]));
    std::iota(recorded.rows.begin(), recorded.rows.end(), 0);
  } else {
    recorded.rows = row_numbers(call, layer, name, meaning, tensor.shape[1]);
  }
  return recorded;
}

}  // namespace skim

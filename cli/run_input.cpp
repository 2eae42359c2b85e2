#include "run_input.hpp"

#include <fmt/format.h>

#include <cstring>

#include "skim/checkpoint.hpp"
#include "skim/error.hpp"

namespace skim::cli {

RunInput::RunInput(const std::string& file, const std::vector<int>& layers, std::int64_t dim) {
  if (file.empty()) return;
  file_ = SafetensorsFile::open(file);
  for (const int layer : layers) {
    const std::string name = name_for(layer);
    if (!file_->contains(name)) {
      throw Error(ErrorCode::bad_file,
                  fmt::format("{}: neither layer.{}.x nor x, expected BF16 [tokens, {}]", file, layer, dim));
    }
    const Tensor x = file_->tensor(name);
    if (x.dtype != DType::bf16 || x.shape.size() != 2 || x.shape[1] != dim) {
      throw Error(ErrorCode::bad_file, fmt::format("{}: {} is {} {}, expected BF16 [tokens, {}]", file, name,
                                                   dtype_name(x.dtype), x.shape_text(), dim));
    }
    rows_ = std::min(rows_.value_or(x.shape[0]), x.shape[0]);
  }
}

std::string RunInput::name_for(int layer) const {
  const std::string own = fmt::format("layer.{}.x", layer);
  return file_->contains(own) ? own : "x";
}

void RunInput::read(int layer, std::int64_t first, View<bf16, 2> out) const {
  const std::size_t row_bytes = static_cast<std::size_t>(out.shape[1]) * sizeof(bf16);
  const Tensor x = file_ ? file_->tensor(name_for(layer)) : Tensor{};
  for (std::int64_t i = 0; i < out.shape[0]; ++i) {
    if (file_) {
      std::memcpy(out.row(i), x.bytes.data() + static_cast<std::size_t>(first + i) * row_bytes, row_bytes);
    } else {
      const Tensor row = synthetic_input(fmt::format("run.layer.{}.x.{}", layer, first + i), {out.shape[1]});
      std::memcpy(out.row(i), row.bytes.data(), row_bytes);
    }
  }
}

}  // namespace skim::cli

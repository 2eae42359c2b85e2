#include "run_input.hpp"

#include <fmt/format.h>

#include <algorithm>

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
    const TensorInfo& x = file_->info(name);
    if (x.dtype != DType::bf16 || x.shape.size() != 2 || x.shape[1] != dim) {
      throw Error(ErrorCode::bad_file, fmt::format("{}: {} is {} [{}], expected BF16 [tokens, {}]", file, name,
                                                   dtype_name(x.dtype), fmt::join(x.shape, ", "), dim));
    }
    rows_ = std::min(rows_.value_or(x.shape[0]), x.shape[0]);
  }
}

std::string RunInput::name_for(int layer) const {
  const std::string own = fmt::format("layer.{}.x", layer);
  return file_->contains(own) ? own : "x";
}

void RunInput::read(int layer, std::int64_t first, View<bf16, 2> out) const {
  for (std::int64_t i = 0; i < out.shape[0]; ++i) {
    const std::span<std::byte> row =
        std::as_writable_bytes(std::span(out.row(i), static_cast<std::size_t>(out.shape[1])));
    if (file_) {
      file_->read(name_for(layer), (first + i) * static_cast<std::int64_t>(row.size()), row);
    } else {
      const Tensor made = synthetic_input(fmt::format("run.layer.{}.x.{}", layer, first + i), {out.shape[1]});
      std::copy(made.bytes.begin(), made.bytes.end(), row.begin());
    }
  }
}

}  // namespace skim::cli

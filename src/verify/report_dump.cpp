#include <fmt/format.h>

#include <span>

#include "skim/safetensors.hpp"
#include "skim/verify.hpp"

namespace skim {

void write_failing(const VerifyReport& report, const std::filesystem::path& file) {
  std::vector<TensorToWrite> list;
  for (const VerifyTensor& tensor : report.failing) {
    const std::int64_t rows = tensor.batch * tensor.rows * tensor.heads;
    for (const auto& [side, values] : {std::pair{"got", &tensor.got}, std::pair{"want", &tensor.want}}) {
      if (values->empty()) continue;
      list.push_back({fmt::format("{}.call.{}.layer.{}.{}", side, tensor.place.call, tensor.place.layer, tensor.name),
                      DType::f32,
                      {tensor.batch, tensor.rows, tensor.heads, static_cast<std::int64_t>(values->size()) / rows},
                      std::as_bytes(std::span(*values))});
    }
  }
  write_safetensors(file, list, {{"file", report.file}, {"first_failure", report.first_failure}});
}

}  // namespace skim

#include "verify/recorded_tensor.hpp"

#include <algorithm>
#include <cstring>

#include "formats/bf16.hpp"
#include "formats/e4m3.hpp"

namespace skim {

template <class T>
T tensor_element(const Tensor& tensor, std::int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template std::int32_t tensor_element(const Tensor&, std::int64_t);

std::int64_t RecordedTensor::find(std::int64_t row) const {
  const auto found = std::lower_bound(rows.begin(), rows.end(), row);
  return found != rows.end() && *found == row ? found - rows.begin() : -1;
}

std::vector<float> RecordedTensor::floats(int sequence, std::int64_t i) const {
  const std::int64_t first = (sequence * row_count() + i) * width;
  std::vector<float> values(static_cast<std::size_t>(width));
  for (std::int64_t k = 0; k < width; ++k) {
    float& value = values[static_cast<std::size_t>(k)];
    if (tensor.dtype == DType::f32) {
      value = tensor_element<float>(tensor, first + k);
    } else if (tensor.dtype == DType::f8_e4m3) {
      value = e4m3_to_float(tensor_element<std::uint8_t>(tensor, first + k));
    } else {
      value = to_float(tensor_element<bf16>(tensor, first + k));
    }
  }
  return values;
}

std::vector<std::int64_t> RecordedTensor::integers(int sequence, std::int64_t i) const {
  const std::int64_t first = (sequence * row_count() + i) * width;
  std::vector<std::int64_t> values(static_cast<std::size_t>(width));
  for (std::int64_t k = 0; k < width; ++k) {
    values[static_cast<std::size_t>(k)] = tensor.dtype == DType::i64 ? tensor_element<std::int64_t>(tensor, first + k)
                                                                     : tensor_element<std::int32_t>(tensor, first + k);
  }
  return values;
}

std::vector<bool> RecordedTensor::booleans(int sequence, std::int64_t i) const {
  const std::int64_t first = (sequence * row_count() + i) * width;
  std::vector<bool> values(static_cast<std::size_t>(width));
  for (std::int64_t k = 0; k < width; ++k) {
    values[static_cast<std::size_t>(k)] = tensor_element<std::uint8_t>(tensor, first + k) != 0;
  }
  return values;
}

}  // namespace skim

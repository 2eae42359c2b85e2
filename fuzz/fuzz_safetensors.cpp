// SafetensorsFile::parse on any bytes: an accepted file must keep its own promises.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "driver.hpp"
#include "repair_safetensors.hpp"
#include "skim/safetensors.hpp"

namespace {

void require(bool holds, const char* promise) {
  if (!holds) throw std::logic_error(promise);
}

/// Reads every byte.
std::uint64_t sum(std::span<const std::byte> bytes) {
  std::uint64_t total = 0;
  for (const std::byte byte : bytes) total += std::to_integer<std::uint64_t>(byte);
  return total;
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  const skim::SafetensorsFile file = skim::SafetensorsFile::parse(input, "input");
  std::int64_t covered = 0;
  std::uint64_t total = 0;
  for (const skim::TensorInfo& info : file.tensors()) {
    require(info.offset == covered, "tensors follow one another");
    covered += info.bytes;
    require(file.contains(info.name), "contains every listed tensor");
    const skim::Tensor tensor = file.tensor(info.name);
    require(std::cmp_equal(tensor.bytes.size(), info.bytes), "a tensor has the listed bytes");
    require(tensor.elements() * skim::dtype_bits(tensor.dtype) == info.bytes * 8, "bytes fit the shape");
    total += sum(tensor.bytes);
  }
  const std::span<const std::byte> data = input.last(static_cast<std::size_t>(covered));
  require(total == sum(data), "tensors cover the end of the file");
}

void repair(std::string& input) { fuzz::repair_safetensors(input); }

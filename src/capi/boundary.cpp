#include "capi/boundary.hpp"

#include <fmt/format.h>

namespace skim::capi {
namespace {

constexpr std::size_t kLargestStruct = 4096;  // far beyond any version to come, but not beyond the caller's memory

static_assert(SKIM_INVALID_ARGUMENT == static_cast<int>(ErrorCode::invalid_argument));
static_assert(SKIM_BAD_FILE == static_cast<int>(ErrorCode::bad_file));
static_assert(SKIM_BAD_CONFIG == static_cast<int>(ErrorCode::bad_config));
static_assert(SKIM_TENSOR_MISMATCH == static_cast<int>(ErrorCode::tensor_mismatch));
static_assert(SKIM_WRONG_ORDER == static_cast<int>(ErrorCode::wrong_order));
static_assert(SKIM_LIMIT_EXCEEDED == static_cast<int>(ErrorCode::limit_exceeded));
static_assert(SKIM_OUT_OF_MEMORY == static_cast<int>(ErrorCode::out_of_memory));
static_assert(SKIM_IO == static_cast<int>(ErrorCode::io));
static_assert(SKIM_UNAVAILABLE == static_cast<int>(ErrorCode::unavailable));
static_assert(SKIM_CANCELLED == static_cast<int>(ErrorCode::cancelled));

}  // namespace

int report(skim_error* error, int code, std::string_view message) noexcept {
  if (error != nullptr) {
    error->code = code;
    copy_text(message, error->message);
  }
  return code;
}

void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

void require_aligned(std::string_view name, const void* pointer, std::size_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    refuse(fmt::format("{} is at {}, expected a multiple of {}", name, pointer, alignment));
  }
}

void check_size(std::string_view name, std::size_t size, std::size_t alignment) {
  // Sizes of structs are multiples of their alignment, and no field is wider, so none is ever cut in two.
  if (size >= sizeof(std::size_t) && size <= kLargestStruct && size % alignment == 0) return;
  refuse(fmt::format("{}: size is {}, expected {} to {} in steps of {} (sizeof of the struct)", name, size,
                     sizeof(std::size_t), kLargestStruct, alignment));
}

void copy_options(std::string_view name, const void* given, std::size_t size, void* options, std::size_t known) {
  std::memcpy(options, given, std::min(size, known));
  if (size <= known) return;
  const auto rest = std::span(static_cast<const std::byte*>(given), size).subspan(known);
  const auto nonzero = std::ranges::find_if(rest, [](std::byte byte) { return byte != std::byte{0}; });
  if (nonzero == rest.end()) return;
  refuse(fmt::format("{}: byte {} is set, but version {}.{}.{} knows only {} bytes", name,
                     known + static_cast<std::size_t>(nonzero - rest.begin()), SKIM_VERSION_MAJOR, SKIM_VERSION_MINOR,
                     SKIM_VERSION_PATCH, known));
}

std::size_t copy_text(std::string_view text, std::span<char> target) noexcept {
  if (target.empty()) return 0;
  const std::size_t length = std::min(text.size(), target.size() - 1);
  std::memcpy(target.data(), text.data(), length);
  target[length] = '\0';
  return length;
}

skim_text& required_text(std::string_view name, skim_text* text) {
  skim_text& target = required(name, text);
  required(name, target.data, target.capacity);
  return target;
}

void write_text(std::string_view text, skim_text& target) noexcept {
  copy_text(text, {target.data, target.capacity});
  target.length = text.size();
}

}  // namespace skim::capi

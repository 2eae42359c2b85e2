// Where C meets C++: what comes in is checked, what goes out is copied, and no exception passes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skim/error.hpp"
#include "skim/skim.h"

namespace skim::capi {

/// Writes code and message, if there is an error to write to, and returns the code.
int report(skim_error* error, int code, std::string_view message) noexcept;

/// Runs `call`, which throws what goes wrong.
template <class Call>
int guarded(skim_error* error, const Call& call) noexcept {
  try {
    call();
    return report(error, SKIM_OK, "");
  } catch (const Error& caught) {
    return report(error, static_cast<int>(caught.code()), caught.what());
  } catch (const std::bad_alloc&) {
    return report(error, SKIM_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return report(error, SKIM_OUT_OF_MEMORY, "more elements than memory can hold");
  } catch (const std::exception& caught) {
    return report(error, SKIM_INTERNAL, caught.what());
  } catch (...) {
    return report(error, SKIM_INTERNAL, "an exception of unknown type");
  }
}

/// Throws Error{invalid_argument}.
[[noreturn]] void refuse(const std::string& message);
void require_aligned(std::string_view name, const void* pointer, std::size_t alignment);

/// What a pointer from C points to. `name` is the parameter's.
template <class T>
T& required(std::string_view name, T* pointer) {
  if (pointer == nullptr) refuse(std::string(name) + " is NULL");
  require_aligned(name, pointer, alignof(T));
  return *pointer;
}

/// `count` elements; `data` may be null if there are none.
template <class T>
std::span<T> required(std::string_view name, T* data, std::size_t count) {
  if (count == 0) return {};
  if (count > PTRDIFF_MAX / sizeof(T)) {
    refuse(std::string(name) + " has " + std::to_string(count) + " elements, more than memory can hold");
  }
  return {&required(name, data), count};
}

/// Where a new handle goes. It is null until the function has succeeded.
template <class T>
T*& new_handle(std::string_view name, T** handle) {
  return required(name, handle) = nullptr;
}

/// Empty for a null pointer.
inline std::string optional_text(const char* text) { return text == nullptr ? "" : text; }

/// Throws Error{invalid_argument} for a size that no version of the struct can have.
void check_size(std::string_view name, std::size_t size, std::size_t alignment);
/// Copies the first `size` bytes of `given`, at most `known` of them. Throws Error{invalid_argument} if others are not
/// 0.
void copy_options(std::string_view name, const void* given, std::size_t size, void* options, std::size_t known);

/// Options of a caller that may know more fields or fewer, or of none.
template <class Options>
Options read_options(std::string_view name, const Options* given) {
  Options options{};
  if (given == nullptr) return options;
  const std::size_t size = required(name, given).size;
  check_size(name, size, alignof(Options));
  copy_options(name, given, size, &options, sizeof options);
  return options;
}

/// Fills in a struct of a caller that may know more fields or fewer.
template <class Info>
void write_info(std::string_view name, Info* target, Info info) {
  const std::size_t size = required(name, target).size;
  check_size(name, size, alignof(Info));
  info.size = size;
  std::memcpy(target, &info, std::min(size, sizeof info));
  if (size > sizeof info) std::memset(reinterpret_cast<std::byte*>(target) + sizeof info, 0, size - sizeof info);
}

/// Copies as much as there is room for, NUL included. Returns the length copied.
std::size_t copy_text(std::string_view text, std::span<char> target) noexcept;
template <std::size_t Size>
void copy_name(std::string_view text, char (&target)[Size]) {
  copy_text(text, target);
}

/// A text of the caller that can be written to.
skim_text& required_text(std::string_view name, skim_text* text);
void write_text(std::string_view text, skim_text& target) noexcept;

/// Copies as many elements as there is room for; count gets how many there are.
template <class T>
void write_list(const std::vector<T>& list, std::span<T> target, std::size_t& count) {
  std::copy_n(list.begin(), std::min(list.size(), target.size()), target.begin());
  count = list.size();
}

/// A number of C in a type that may be smaller.
template <class To>
To narrowed(std::string_view name, std::int64_t value) {
  if (!std::in_range<To>(value)) refuse(std::string(name) + " is " + std::to_string(value) + ", out of range");
  return static_cast<To>(value);
}

}  // namespace skim::capi

// Element types and strided views.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace skim {

/// bfloat16 as stored: sign 1, exponent 8, mantissa 7. A bit pattern without arithmetic.
struct bf16 {
  std::uint16_t bits;
  friend bool operator==(bf16, bf16) = default;  ///< Equal bit patterns (so -0 != +0, and a NaN equals itself).
};

/// The same value as float32, exactly.
inline float to_float(bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

/// The bfloat16 value nearest to a float32 one, ties to the even mantissa (docs/v41.md, Number formats). Beyond the
/// largest finite value: infinity. NaN stays NaN, made quiet.
inline bf16 to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};  // quiet, so that truncation cannot make it infinite
  }
  const std::uint32_t half_below_even = 0x7FFFu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>((bits + half_below_even) >> 16)};
}

/// Element types of the safetensors format.
enum class DType {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

/// The format's own spelling, e.g. "F8_E4M3".
std::string_view dtype_name(DType dtype);
/// Bits per element (4 for F4, so two elements share a byte).
int dtype_bits(DType dtype);

/// A strided window onto memory owned by someone else. `shape[i]` elements at `strides[i]` (in elements) apart.
template <class T, int Rank>
struct View {
  T* data = nullptr;
  std::array<std::int64_t, Rank> shape{};
  std::array<std::int64_t, Rank> strides{};

  View() = default;
  /// Row-major without gaps.
  View(T* first, std::array<std::int64_t, Rank> extents) : data(first), shape(extents) {
    std::int64_t stride = 1;
    for (int i = Rank - 1; i >= 0; --i) {
      strides[i] = stride;
      stride *= shape[i];
    }
  }
  View(T* first, std::array<std::int64_t, Rank> extents, std::array<std::int64_t, Rank> steps)
      : data(first), shape(extents), strides(steps) {}
  /// A view of mutable elements is also a view of const ones.
  operator View<const T, Rank>() const requires(!std::is_const_v<T>) { return {data, shape, strides}; }

  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank);
    std::int64_t offset = 0;
    int axis = 0;
    ((offset += static_cast<std::int64_t>(index) * strides[axis++]), ...);
    return data[offset];
  }
  /// First element of row i.
  T* row(std::int64_t i) const { return data + i * strides[0]; }
  /// Rows [first, first + count).
  View rows(std::int64_t first, std::int64_t count) const {
    View part = *this;
    part.data = row(first);
    part.shape[0] = count;
    return part;
  }
};

/// A tensor of a checkpoint or case file: its bytes stay alive as long as any copy of this handle.
struct Tensor {
  DType dtype = DType::u8;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;   ///< Row-major, little endian; not necessarily aligned.
  std::shared_ptr<const void> owner;  ///< Keeps `bytes` alive.

  /// Product of the shape. Throws Error{invalid_argument} for a negative extent or one beyond 63 bits, which no tensor
  /// read from a file has.
  std::int64_t elements() const;
  std::string shape_text() const;  ///< e.g. "[96, 64]".
};

}  // namespace skim

// Loops that do one kind of work as fast as an instruction set allows, with operands in registers or in the first-level
// cache: what a processor can do at best. One file per instruction set, compiled with its flags; nothing here may be
// called on a processor without it. These files include no inline function of anyone's, of which the linker might keep
// the copy with their instructions for everybody.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skim::bench {

/// Does so many rounds and returns how many operations that was; a product and its sum are two.
using ArithmeticLoop = double (*)(std::int64_t rounds);
/// Reads whole steps of 512 bytes, the rest at the end not. The result means nothing.
using ReadLoop = std::uint64_t (*)(const std::byte* first, std::int64_t bytes);

namespace baseline {
double float_products(std::int64_t rounds);
std::uint64_t read(const std::byte* first, std::int64_t bytes);
}  // namespace baseline

namespace avx2 {
double float_products(std::int64_t rounds);  ///< vfmadd
double int8_products(std::int64_t rounds);   ///< vpmaddubsw, vpmaddwd and vpaddd: what VNNI does in one
std::uint64_t read(const std::byte* first, std::int64_t bytes);
}  // namespace avx2

namespace avx512 {
double float_products(std::int64_t rounds);  ///< vfmadd
double bf16_products(std::int64_t rounds);   ///< vdpbf16ps (AVX512_BF16)
double int8_products(std::int64_t rounds);   ///< vpdpbusd (AVX512_VNNI)
std::uint64_t read(const std::byte* first, std::int64_t bytes);
}  // namespace avx512

namespace amx {
double bf16_products(std::int64_t rounds);  ///< tdpbf16ps, four tiles of sums, tiles loaded from cache
double int8_products(std::int64_t rounds);  ///< tdpbusd, the same way
}  // namespace amx

}  // namespace skim::bench

#include <immintrin.h>

#include "bench/probes/probes.hpp"

namespace skim::bench::amx {
namespace {

constexpr int kSteps = 8;  // of four tiles each: 32 KiB, within the first-level cache
constexpr int kTileBytes = 1024, kTileRowBytes = 64;

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// All eight tiles with 16 rows of 64 bytes. GCC 12 takes _tile_loadconfig to read only 8 bytes, hence the operand.
void configure() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = kTileRowBytes;
    config.rows[tile] = 16;
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

struct alignas(64) Operands {
  std::uint16_t values[kSteps * 4 * kTileBytes / 2];

  Operands() {
    for (std::uint16_t& value : values) value = 0x3C01;  // a small bf16; two small integers
  }
  const std::uint16_t* tile(int step, int which) const { return values + (step * 4 + which) * kTileBytes / 2; }
};

/// Products of tiles 4, 5 with 6, 7, added to tiles 0 to 3.
struct Bf16Products {
  static constexpr double kOperations = 16 * 16 * 32 * 2;
  static void add() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
};
struct Int8Products {
  static constexpr double kOperations = 16 * 16 * 64 * 2;
  static void add() {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
};

/// The blocking of a matrix product: two tiles of each side are loaded for four products.
template <class Products>
double multiply(std::int64_t rounds) {
  const Operands operands;
  configure();
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (int step = 0; step < kSteps; ++step) {
      _tile_loadd(4, operands.tile(step, 0), kTileRowBytes);
      _tile_loadd(5, operands.tile(step, 1), kTileRowBytes);
      _tile_loadd(6, operands.tile(step, 2), kTileRowBytes);
      _tile_loadd(7, operands.tile(step, 3), kTileRowBytes);
      Products::add();
    }
  }
  _tile_release();
  return static_cast<double>(rounds) * kSteps * 4 * Products::kOperations;
}

}  // namespace

double bf16_products(std::int64_t rounds) { return multiply<Bf16Products>(rounds); }
double int8_products(std::int64_t rounds) { return multiply<Int8Products>(rounds); }

}  // namespace skim::bench::amx

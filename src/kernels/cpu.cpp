#include "kernels/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace skim {
namespace {

/// What was found of one instruction set.
struct Feature {
  bool processor = false;  ///< The instructions exist.
  bool system = false;     ///< The operating system keeps their registers, and lets this process use them.
};

struct Features {
  Feature avx2, avx512, amx;
};

#if defined(__x86_64__)

constexpr unsigned bit(int index) { return 1u << index; }
constexpr bool has(unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; }

/// Register state that the operating system saves (XCR0): 1 and 2 vectors of 128 and 256 bits, 5 to 7 those of AVX-512,
/// 17 and 18 tiles.
unsigned saved_state() {
  unsigned low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/// Tiles are larger than a thread's save area: Linux wants to be asked before their first use.
bool permits_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

Features detect() {
  Features found;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const unsigned basic = c;
  unsigned a7 = 0, b7 = 0, c7 = 0, d7 = 0;
  if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) return found;
  const unsigned saved = has(basic, bit(27)) ? saved_state() : 0;  // OSXSAVE: XGETBV may be executed

  found.avx2.processor = has(basic, bit(12) | bit(28) | bit(29)) && has(b7, bit(5));  // FMA, AVX, F16C; AVX2
  found.avx2.system = has(saved, bit(1) | bit(2));
  const bool avx512_base = has(b7, bit(16) | bit(17) | bit(30) | bit(31));                    // F, DQ, BW, VL
  found.avx512.processor = found.avx2.processor && avx512_base && has(c7, bit(1) | bit(11));  // VBMI, VNNI
  found.avx512.system = found.avx2.system && has(saved, bit(5) | bit(6) | bit(7));
  found.amx.processor = found.avx512.processor && has(d7, bit(22) | bit(24) | bit(25));  // BF16, TILE, INT8
  found.amx.system = found.amx.processor && found.avx512.system && has(saved, bit(17) | bit(18)) && permits_tiles();
  return found;
}

#else

Features detect() { return {}; }

#endif

const Features& features() {
  static const Features found = detect();
  return found;
}

bool usable(const Feature& feature) { return feature.processor && feature.system; }

}  // namespace

CpuFeatures cpu_features() {
  const Features& found = features();
  return (usable(found.avx2) ? kCpuAvx2 : 0) | (usable(found.avx512) ? kCpuAvx512 : 0) |
         (usable(found.amx) ? kCpuAmx : 0);
}

std::string why_missing(CpuFeatures feature) {
  const Features& all = features();
  const Feature& found = feature == kCpuAmx ? all.amx : feature == kCpuAvx512 ? all.avx512 : all.avx2;
  const std::string name = feature == kCpuAmx      ? "AMX (TILE, INT8, BF16) beside AVX-512"
                           : feature == kCpuAvx512 ? "AVX-512 (F, BW, DQ, VL, VBMI, VNNI)"
                                                   : "AVX2, FMA and F16C";
  if (!found.processor) return "the processor has no " + name;
  if (!found.system) return "the operating system does not permit " + name;
  return {};
}

}  // namespace skim

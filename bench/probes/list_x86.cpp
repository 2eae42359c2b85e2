// Which loops an x86 processor can run. Compiled without flags that choose an instruction set.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/probes/probe_list.hpp"

namespace skim::bench {
namespace {

struct Features {
  bool avx2 = false;    ///< With FMA.
  bool avx512 = false;  ///< F, BW and VL.
  bool avx512_bf16 = false, avx512_vnni = false;
  bool amx_bf16 = false, amx_int8 = false;
};

/// Tile registers are 8 KiB of state per thread; the operating system gives them only to a process that asks.
bool may_use_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

Features find_features() {
  Features found;
  found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  found.avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  found.avx512_bf16 = found.avx512 && __builtin_cpu_supports("avx512bf16");
  found.avx512_vnni = found.avx512 && __builtin_cpu_supports("avx512vnni");
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return found;
  const bool tiles = (edx & (1u << 24)) != 0 && may_use_tiles();
  found.amx_bf16 = tiles && (edx & (1u << 22)) != 0;
  found.amx_int8 = tiles && (edx & (1u << 25)) != 0;
  return found;
}

const Features& features() {
  static const Features found = find_features();
  return found;
}

}  // namespace

std::vector<Probe> available_probes() {
  const Features& has = features();
  std::vector<Probe> probes = {{"float_baseline", false, baseline::float_products}};
  const auto add = [&](bool there, const Probe& probe) {
    if (there) probes.push_back(probe);
  };
  add(has.avx2, {"float_avx2", false, avx2::float_products});
  add(has.avx2, {"int8_avx2", true, avx2::int8_products});
  add(has.avx512, {"float_avx512", false, avx512::float_products});
  add(has.avx512_bf16, {"bf16_avx512", false, avx512::bf16_products});
  add(has.avx512_vnni, {"int8_avx512", true, avx512::int8_products});
  add(has.amx_bf16, {"bf16_amx", false, amx::bf16_products});
  add(has.amx_int8, {"int8_amx", true, amx::int8_products});
  return probes;
}

ReadLoop available_read() {
  if (features().avx512) return avx512::read;
  return features().avx2 ? avx2::read : baseline::read;
}

std::vector<std::string> available_features() {
  const Features& has = features();
  std::vector<std::string> names;
  for (const auto& [there, name] : {std::pair{has.avx2, "avx2"},
                                    {has.avx512, "avx512"},
                                    {has.avx512_bf16, "avx512_bf16"},
                                    {has.avx512_vnni, "avx512_vnni"},
                                    {has.amx_bf16, "amx_bf16"},
                                    {has.amx_int8, "amx_int8"}}) {
    if (there) names.emplace_back(name);
  }
  return names;
}

}  // namespace skim::bench

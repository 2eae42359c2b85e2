// The library itself: version, kernel sets and conversions of numbers.
#include <functional>

#include "capi/boundary.hpp"
#include "skim/machine.hpp"
#include "skim/tensor.hpp"

namespace capi = skim::capi;

namespace {

void refuse_overlap(std::span<const std::byte> values, std::span<const std::byte> bf16) {
  const std::less<const std::byte*> before;
  if (before(values.data(), bf16.data() + bf16.size()) && before(bf16.data(), values.data() + values.size())) {
    capi::refuse("values and bf16 overlap");
  }
}

}  // namespace

static_assert(SKIM_VERSION == SKIM_PROJECT_VERSION, "skim.h and CMakeLists.txt name different versions");

int skim_version(void) { return SKIM_VERSION; }

int skim_kernel_set_count(size_t* count, skim_error* error) {
  return capi::guarded(error, [&] { capi::required("count", count) = skim::kernel_set_infos().size(); });
}

int skim_kernel_set_info(size_t number, skim_kernel_set* info, skim_error* error) {
  return capi::guarded(error, [&] {
    const auto sets = skim::kernel_set_infos();
    if (number >= sets.size()) {
      capi::refuse("number is " + std::to_string(number) + ", but there are " + std::to_string(sets.size()) +
                   " kernel sets");
    }
    skim_kernel_set found{};
    capi::copy_name(sets[number].name, found.name);
    capi::copy_name(sets[number].description, found.description);
    capi::copy_name(sets[number].why_not, found.why_not);
    found.available = sets[number].why_not.empty() ? 1 : 0;
    capi::write_info("info", info, found);
  });
}

int skim_to_bf16(const float* values, uint16_t* bf16, size_t count, skim_error* error) {
  return capi::guarded(error, [&] {
    const auto from = capi::required("values", values, count);
    const auto to = capi::required("bf16", bf16, count);
    refuse_overlap(std::as_bytes(from), std::as_bytes(to));
    std::transform(from.begin(), from.end(), to.begin(), [](float value) { return skim::to_bf16(value).bits; });
  });
}

int skim_to_float32(const uint16_t* bf16, float* values, size_t count, skim_error* error) {
  return capi::guarded(error, [&] {
    const auto from = capi::required("bf16", bf16, count);
    const auto to = capi::required("values", values, count);
    refuse_overlap(std::as_bytes(to), std::as_bytes(from));
    std::transform(from.begin(), from.end(), to.begin(), [](uint16_t bits) { return skim::to_float({bits}); });
  });
}

// The library itself: version and kernel sets.
#include "capi/boundary.hpp"
#include "skim/machine.hpp"

namespace capi = skim::capi;

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

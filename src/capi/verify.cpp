#include "skim/verify.hpp"

#include "capi/boundary.hpp"
#include "capi/handles.hpp"

namespace capi = skim::capi;

int skim_verify(const char* path, const skim_verify_options* options, int32_t* passed, skim_text* report,
                skim_error* error) {
  return capi::guarded(error, [&] {
    int32_t& verdict = capi::required("passed", passed);
    skim_text* const target = report == nullptr ? nullptr : &capi::required_text("report", report);
    const skim_verify_options given = capi::read_options("options", options);
    skim::VerifyOptions wanted;
    wanted.kernels = capi::optional_text(given.kernels);
    if (given.tolerance != nullptr) wanted.tolerance = capi::required("options.tolerance", given.tolerance);
    if (given.weights != nullptr) wanted.weights = capi::required("options.weights", given.weights).checkpoint;
    wanted.threads = capi::narrowed<int>("options.threads", given.threads);
    const skim::VerifyReport found = skim::verify(&capi::required("path", path), wanted);
    if (target != nullptr) capi::write_text(skim::report_text(found), *target);
    verdict = found.passed() ? 1 : 0;
  });
}

// bfloat16 rounding of float32 values (docs/v41.md, Number formats). The conversions are public: skim/tensor.hpp.
#pragma once

#include "skim/tensor.hpp"

namespace skim {

/// The float32 nearest to `value` among bfloat16 values.
inline float round_bf16(float value) { return to_float(to_bf16(value)); }

}  // namespace skim

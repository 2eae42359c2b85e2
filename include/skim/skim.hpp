// Everything: DeepSeek sparse attention on CPUs.
#pragma once

#include "skim/cache.hpp"
#include "skim/checkpoint.hpp"
#include "skim/config.hpp"
#include "skim/config_fields.hpp"
#include "skim/error.hpp"
#include "skim/machine.hpp"
#include "skim/merge.hpp"
#include "skim/model.hpp"
#include "skim/safetensors.hpp"
#include "skim/tensor.hpp"
#include "skim/trace.hpp"
#include "skim/verify.hpp"

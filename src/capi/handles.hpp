// What the handles of skim.h hold. Each has all it needs, so that they can be freed in any order.
#pragma once

#include "skim/cache.hpp"
#include "skim/checkpoint.hpp"
#include "skim/model.hpp"
#include "skim/skim.h"

struct skim_checkpoint {
  skim::Checkpoint checkpoint;
};

struct skim_model {
  skim::Model model;
};

struct skim_cache {
  skim::Model model;
  skim::KvCache cache;
};

struct skim_batch {
  skim::Model model;
  skim::Batch batch;
};

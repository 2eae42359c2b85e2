// Entries of a batch as C gives them.
#pragma once

#include <vector>

#include "capi/boundary.hpp"
#include "skim/cache.hpp"

namespace skim::capi {

inline std::vector<BatchEntry> batch_entries(const skim_batch_entry* entries, std::size_t count) {
  std::vector<BatchEntry> list;
  for (const skim_batch_entry& entry : required("entries", entries, count)) {
    list.push_back({{entry.sequence}, entry.tokens});
  }
  return list;
}

}  // namespace skim::capi

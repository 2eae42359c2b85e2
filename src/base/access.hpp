// What lies behind public objects, for the library, its tools and its tests.
#pragma once

namespace skim {

struct Access {
  /// Of a Model, KvCache or Batch.
  template <class T>
  static decltype(auto) impl(T& object) {
    return object.impl();
  }
};

}  // namespace skim

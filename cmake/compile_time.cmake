# What keeps compile times low.

# Headers that nearly every file of src/ and tests/ includes, parsed once.
set(SKIM_COMMON_HEADERS
  <algorithm> <array> <atomic> <bit> <cmath> <cstddef> <cstdint> <cstring> <filesystem> <functional> <limits> <map>
  <memory> <mutex> <numeric> <optional> <set> <span> <stdexcept> <string> <string_view> <tuple> <utility> <variant>
  <vector> <fmt/format.h>)

# compile_as_one(<target>...): compiles all files of a target in one go. For targets whose files each would generate code
# from large headers (CLI11, JSON, fmt) once more: those of cli/ take a quarter of the time. Names in their unnamed
# namespaces must differ. -DCMAKE_UNITY_BUILD=OFF compiles them one by one, as clang-tidy needs it.
function(compile_as_one)
  if(NOT DEFINED CMAKE_UNITY_BUILD)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
endfunction()

# libskim.so: the C API alone. C++ behind it is hidden, so that a process may hold several versions of it.
add_library(skim_c SHARED
  src/capi/batch.cpp
  src/capi/boundary.cpp
  src/capi/cache.cpp
  src/capi/checkpoint.cpp
  src/capi/library.cpp
  src/capi/model.cpp
  src/capi/verify.cpp)
add_library(skim::c ALIAS skim_c)
compile_as_one(skim_c)
set_target_properties(skim_c PROPERTIES
  OUTPUT_NAME skim
  EXPORT_NAME c
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/capi/exports.map)
math(EXPR version_number
  "${PROJECT_VERSION_MAJOR} * 10000 + ${PROJECT_VERSION_MINOR} * 100 + ${PROJECT_VERSION_PATCH}")
target_compile_definitions(skim_c PRIVATE SKIM_PROJECT_VERSION=${version_number})
target_include_directories(skim_c
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  PRIVATE src)
target_link_libraries(skim_c PRIVATE skim skim_fmt)
# Undefined symbols would be noticed only by programs that link it.
target_link_options(skim_c PRIVATE LINKER:--no-undefined LINKER:--version-script=${PROJECT_SOURCE_DIR}/src/capi/exports.map)

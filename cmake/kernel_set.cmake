# kernel_set(<name> SOURCES <file>... [OPTIONS <flag>...])
#
# Adds src/kernels/<name>/<file>... to skim as one object library. This is the only place, bench/probes aside, where flags
# that choose an instruction set may be passed: code outside a set's folder must run on any processor.
function(kernel_set name)
  cmake_parse_arguments(SET "" "" "SOURCES;OPTIONS" ${ARGN})
  list(TRANSFORM SET_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/src/kernels/${name}/)
  add_library(skim_kernels_${name} OBJECT ${SET_SOURCES})
  target_include_directories(skim_kernels_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(skim_kernels_${name} PRIVATE ${SET_OPTIONS})
  if(SKIM_OPENMP)
    target_link_libraries(skim_kernels_${name} PRIVATE OpenMP::OpenMP_CXX)
  endif()
  target_sources(skim PRIVATE $<TARGET_OBJECTS:skim_kernels_${name}>)
endfunction()

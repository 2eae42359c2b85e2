# What the library is built from: docs/dependencies.md. All of it is compiled in, so only headers are needed: skim_fmt and
# skim_xxhash are their folders, src/base/fmt.cpp holds what libfmt would. Installed packages come first. A Python build on
# a machine without them takes their headers from PyPI: fmt and nlohmann-json are among the build requirements in
# pyproject.toml; xxHash is in the source archive of the package `xxhash`, which pip downloads.

set(SKIM_DEBIAN_PACKAGES "libfmt-dev nlohmann-json3-dev libxxhash-dev")

# skim_pypi_file(<variable> <distribution> <path>): where an installed distribution keeps a file or folder.
function(skim_pypi_file variable distribution path)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "from importlib.metadata import distribution as d; print(d('${distribution}').locate_file('${path}').resolve())"
    OUTPUT_VARIABLE found ERROR_VARIABLE problem OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT EXISTS "${found}")
    message(FATAL_ERROR "neither the Debian packages ${SKIM_DEBIAN_PACKAGES} nor the PyPI package ${distribution} are "
                        "there; install either. ${problem}")
  endif()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# skim_header_library(<target> <folder>): a library that is all headers, their warnings not ours.
function(skim_header_library target folder)
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} SYSTEM INTERFACE ${folder})
endfunction()

function(skim_download_xxhash)
  set(folder ${PROJECT_BINARY_DIR}/xxhash)
  file(GLOB archive ${folder}/xxhash-*.tar.gz)
  if(NOT archive)
    message(STATUS "xxhash.h is not installed (Debian: libxxhash-dev): downloading the source archive from PyPI")
    execute_process(
      COMMAND ${Python_EXECUTABLE} -m pip download --quiet --no-deps --no-binary xxhash --dest ${folder} xxhash==3.5.0
      ERROR_VARIABLE problem RESULT_VARIABLE status)
    file(GLOB archive ${folder}/xxhash-*.tar.gz)
    if(status OR NOT archive)
      message(FATAL_ERROR "xxhash.h is not there (Debian: libxxhash-dev), and pip cannot download xxhash: ${problem}")
    endif()
  endif()
  file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${folder})
  file(GLOB header ${folder}/*/deps/xxhash/xxhash.h)
  get_filename_component(include ${header} DIRECTORY)
  set(XXHASH_INCLUDE_DIR ${include} PARENT_SCOPE)
endfunction()

if(NOT SKIM_BUILD_PYTHON)
  set(required REQUIRED)
endif()
find_package(nlohmann_json QUIET ${required})
find_path(FMT_INCLUDE_DIR fmt/format.h ${required})
find_path(XXHASH_INCLUDE_DIR xxhash.h ${required})

if(NOT TARGET nlohmann_json::nlohmann_json)
  skim_pypi_file(folder nlohmann-json nlohmann_json/include)
  skim_header_library(nlohmann_json::nlohmann_json ${folder})
endif()
if(NOT FMT_INCLUDE_DIR)
  skim_pypi_file(FMT_INCLUDE_DIR cmeel-fmt cmeel.prefix/include)
endif()
if(NOT XXHASH_INCLUDE_DIR)
  skim_download_xxhash()
endif()
skim_header_library(skim_fmt ${FMT_INCLUDE_DIR})
skim_header_library(skim_xxhash ${XXHASH_INCLUDE_DIR})
target_compile_definitions(skim_xxhash INTERFACE XXH_INLINE_ALL)

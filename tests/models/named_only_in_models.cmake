# Claims: outside src/models/ no source of the library or its tools names a model: neither its configuration or weights
# nor its model_type. What differs between models is asked of the Family.
#
#   cmake -DROOT=<repository> -P named_only_in_models.cmake
set(names "V[0-9]+Config|V[0-9]+Weights|v41::|v32::|deepseek_v")
# Public configurations and their bindings in Python; readers of config.json.
set(allowed "^src/models/|^include/skim/config.hpp$|^python/src/config.cpp$|^python/skim/__init__.py$|^src/checkpoint/.*config")

foreach(folder IN ITEMS include src cli bench soak python)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.hpp ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.h
    ${ROOT}/${folder}/*.py)
  list(APPEND sources ${files})
endforeach()
list(LENGTH sources count)
if(count LESS 100)
  message(FATAL_ERROR "only ${count} sources in ${ROOT}: is it the repository?")
endif()

set(found "")
set(matched 0)
foreach(source IN LISTS sources)
  file(STRINGS ${ROOT}/${source} lines REGEX "${names}")
  if(NOT lines)
    continue()
  endif()
  if(source MATCHES "${allowed}")
    math(EXPR matched "${matched} + 1")
    continue()
  endif()
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^ *(///?|/\\*|\\*)" AND NOT line MATCHES "(///<|/\\*)[^\"]*\"?(${names})")
      string(APPEND found "\n${source}: ${line}")
    endif()
  endforeach()
endforeach()
if(matched EQUAL 0)
  message(FATAL_ERROR "no file of src/models/ names a model: the pattern is wrong")
endif()
if(found)
  message(FATAL_ERROR "models are named outside src/models/:${found}")
endif()

# cmake -DNM=<nm> -DOBJECTS=<file>[,<file>...] -P no_weak_symbols.cmake
#
# Claim: object files compiled for an instruction set define no weak function. The linker keeps any one copy of such a
# function for the whole program; if it were theirs, other processors would meet instructions they do not have.
string(REPLACE "," ";" files "${OBJECTS}")
foreach(file IN LISTS files)
  execute_process(COMMAND ${NM} -C --defined-only ${file} OUTPUT_VARIABLE symbols RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR symbols STREQUAL "")
    message(FATAL_ERROR "${NM} ${file} failed")
  endif()
  # DW.ref.* is data: a pointer to the handler of exceptions.
  string(REGEX MATCHALL "[^\n]* [WV] [^\n]*" weak "${symbols}")
  list(FILTER weak EXCLUDE REGEX " V DW\\.ref\\.")
  if(weak)
    list(JOIN weak "\n  " lines)
    message(FATAL_ERROR "${file} defines weak symbols:\n  ${lines}")
  endif()
endforeach()

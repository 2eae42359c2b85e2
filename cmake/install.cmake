# cmake --install: public headers, both libraries, how CMake and pkg-config find them, and documents (cli/CMakeLists.txt:
# the command, its manual page and its completion). Nothing that is
# installed names the prefix, so the tree may be moved.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/skim)

install(TARGETS skim EXPORT skim_cpp ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS skim_c EXPORT skim_c LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/skim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT skim_cpp NAMESPACE skim:: FILE skim-cpp.cmake DESTINATION ${package_dir})
install(EXPORT skim_c NAMESPACE skim:: FILE skim-c.cmake DESTINATION ${package_dir})
# As they lie here, so that links between them hold.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN target EXCLUDE PATTERN Cargo.lock EXCLUDE)

configure_package_config_file(cmake/skimConfig.cmake.in ${PROJECT_BINARY_DIR}/skimConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/skimConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/skimConfig.cmake ${PROJECT_BINARY_DIR}/skimConfigVersion.cmake
  DESTINATION ${package_dir})

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pkgconfig_to_include /${pkgconfig_dir} /${CMAKE_INSTALL_INCLUDEDIR})
foreach(package skim skim-cpp)
  configure_file(cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${pkgconfig_dir})
endforeach()

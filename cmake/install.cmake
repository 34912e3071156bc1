# `cmake --install`: headers, libraries, the `glebe` command if it was built, licenses, and two ways to find the
# libraries.
#
#   find_package(glebe)   pkg-config
#   glebe::glebe          glebe            shared: API and malloc; with --static the archive of the API
#   glebe::static         glebe-static     archive: API alone
#   glebe::override       glebe-override   archive: API and malloc
#   glebe::cpp                             C++ headers, beside one of these

include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/glebe)

install(TARGETS glebe glebe-static glebe-override glebe-cpp EXPORT glebe-targets)
install(TARGETS glebe-secure glebe-audit) # to be preloaded, not linked
if(TARGET glebe-mimalloc-3)
  # Where no loader looks unasked.
  install(TARGETS glebe-mimalloc-2 glebe-mimalloc-3 LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/glebe)
endif()
install(PROGRAMS ${GLEBE_OUTPUT_DIR}/glebe DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL) # cargo builds it: `make cli`
install(FILES LICENSE LICENSE-MIT LICENSE-APACHE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES include/glebe.h bindings/lua/glebe_lua.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# A source: each Lua's headers give another object.
install(FILES bindings/lua/glebe_lua.c DESTINATION ${CMAKE_INSTALL_DATADIR}/glebe)
install(DIRECTORY bindings/cpp/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT glebe-targets NAMESPACE glebe:: DESTINATION ${config_dir})

configure_package_config_file(cmake/glebe-config.cmake.in glebe-config.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(glebe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/glebe-config.cmake ${PROJECT_BINARY_DIR}/glebe-config-version.cmake
        DESTINATION ${config_dir})

# Each file finds its prefix from its own place, so that `cmake --install --prefix` and moved trees stay true.
file(RELATIVE_PATH pc_to_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
# pkg-config escapes a space in the path of -L alone.
set(pc_archive "-L\${libdir} -l:libglebe.a")
if(APPLE) # whose linker has no such name
  set(pc_archive "\${libdir}/libglebe.a")
endif()
foreach(package glebe glebe-static glebe-override)
  configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

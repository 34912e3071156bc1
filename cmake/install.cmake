# `cmake --install`: headers, libraries, and two ways to find them.
#
#   find_package(glebe)   glebe::glebe     shared: API and malloc        glebe::static     archive: API alone
#                         glebe::override  archive: API and malloc       glebe::cpp        C++ headers
#   pkg-config glebe      the shared library; with --static the archive of the API

include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/glebe)

install(TARGETS glebe glebe-static glebe-override glebe-cpp EXPORT glebe-targets)
install(TARGETS glebe-secure glebe-audit) # to be preloaded, not linked
if(TARGET glebe-mimalloc-3)
  install(TARGETS glebe-mimalloc-2 glebe-mimalloc-3 LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/glebe) # where no loader looks unasked
endif()
install(FILES include/glebe.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY bindings/cpp/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT glebe-targets NAMESPACE glebe:: DESTINATION ${config_dir})

configure_package_config_file(cmake/glebe-config.cmake.in glebe-config.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(glebe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/glebe-config.cmake ${PROJECT_BINARY_DIR}/glebe-config-version.cmake
        DESTINATION ${config_dir})

# The file finds its prefix from its own place, so that `cmake --install --prefix` and moved trees stay true.
file(RELATIVE_PATH pc_to_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
configure_file(cmake/glebe.pc.in glebe.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/glebe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

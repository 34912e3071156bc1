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
if(TARGET glebe-safe)
  install(TARGETS glebe-safe)
endif()
if(TARGET glebe-mimalloc-3)
  # A folder that no loader searches by default.
  install(TARGETS glebe-mimalloc-2 glebe-mimalloc-3 LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/glebe)
endif()
if(TARGET glebe-libgc)
  install(TARGETS glebe-libgc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/glebe) # the same
endif()
install(PROGRAMS ${GLEBE_OUTPUT_DIR}/glebe DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL) # cargo builds it: `make cli`
install(DIRECTORY ${GLEBE_OUTPUT_DIR}/share/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL) # the same
foreach(shell bash-completion zsh fish)
  install(DIRECTORY ${GLEBE_OUTPUT_DIR}/share/${shell} DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL)
endforeach()
install(FILES LICENSE LICENSE-MIT LICENSE-APACHE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES include/glebe.h bindings/lua/glebe_lua.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Installed as source: each Lua version's headers yield a different object.
install(FILES bindings/lua/glebe_lua.c DESTINATION ${CMAKE_INSTALL_DATADIR}/glebe)
install(DIRECTORY bindings/cpp/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT glebe-targets NAMESPACE glebe:: DESTINATION ${config_dir})

configure_package_config_file(cmake/glebe-config.cmake.in glebe-config.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(glebe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/glebe-config.cmake ${PROJECT_BINARY_DIR}/glebe-config-version.cmake
        DESTINATION ${config_dir})

# Each .pc file derives its prefix from its own location, so `cmake --install --prefix` and moved trees work.
file(RELATIVE_PATH pc_to_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
# pkg-config escapes spaces in the path of -L, and in no other path.
set(pc_archive "-L\${libdir} -l:libglebe.a")
# Many compilers pass --as-needed, which drops a library that only other libraries call.
set(pc_shared "-Wl,--push-state,--no-as-needed -lglebe -Wl,--pop-state")
if(APPLE) # Apple's linker does not know these options, nor -l:NAME
  set(pc_archive "\${libdir}/libglebe.a")
  set(pc_shared "-lglebe")
endif()
foreach(package glebe glebe-static glebe-override)
  configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

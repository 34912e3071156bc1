# glebe_library(NAME SHARED|STATIC SOURCES ... [DEFINITIONS ...])
#
# One library of the family. All of them are compiled alike; only sources and constants differ.
#
# The link options of the shared ones keep a small process small. A preloaded library costs every process its
# resident pages, and each segment costs at least one:
#   noseparate-code   code and read-only data share pages; otherwise each begins on a page of its own
#   relro, now        symbols are resolved at load time, so no lazy binding calls us before we are ready
#   nodelete          dlclose does not unload it: threads hold its key. Saves each process a call at run time
#   hash-style=gnu    one symbol hash table instead of two
#   compact.ld        what most processes touch comes first, so that fewer windows of the file are mapped
#   max-page-size     64 KiB: the library begins where a window begins
# The driver links as for C: the libraries must not need libstdc++, although they define operator new.

include(CheckLinkerFlag)

set(glebe_link_options "")
if(NOT APPLE AND NOT WIN32)
  foreach(flag -Wl,-O1 -Wl,-z,relro -Wl,-z,now -Wl,-z,noseparate-code -Wl,-z,nodelete -Wl,--hash-style=gnu
               -Wl,--build-id -Wl,-z,defs -Wl,--as-needed -Wl,-z,max-page-size=65536
               -Wl,-T,${CMAKE_CURRENT_LIST_DIR}/compact.ld)
    string(MAKE_C_IDENTIFIER "glebe_has${flag}" has)
    check_linker_flag(C ${flag} ${has})
    if(${has})
      list(APPEND glebe_link_options ${flag})
    endif()
  endforeach()
endif()

set(glebe_warnings -Wall -Wextra -Wpedantic)
if(MSVC)
  set(glebe_warnings /W4)
elseif(GLEBE_WERROR)
  list(APPEND glebe_warnings -Werror)
endif()

# Sets the include paths and compile options of a library of this kind.
function(glebe_compiled name kind)
  target_include_directories(${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${glebe_warnings})
  if(kind STREQUAL "SHARED" AND NOT MSVC)
    target_compile_options(${name} PRIVATE -ffunction-sections) # compact.ld orders the functions
  endif()
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # To note where local variables lie in optimized code takes a quarter of gcc's time; -DCMAKE_BUILD_TYPE=Debug has
    # them all.
    target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-fno-var-tracking>)
  endif()
  target_link_libraries(${name} PRIVATE Threads::Threads)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(kind STREQUAL "SHARED" AND "-Wl,-z,nodelete" IN_LIST glebe_link_options)
    target_compile_definitions(${name} PRIVATE GB_STAYS_LOADED=1)
  endif()
endfunction()

# Objects that several libraries of a kind have in common: they list $<TARGET_OBJECTS:NAME> among their SOURCES.
function(glebe_objects name kind)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${arg_SOURCES})
  glebe_compiled(${name} ${kind})
endfunction()

function(glebe_library name kind)
  cmake_parse_arguments(arg "" "" "SOURCES;DEFINITIONS" ${ARGN})
  add_library(${name} ${kind} ${arg_SOURCES})
  glebe_compiled(${name} ${kind})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  set_target_properties(${name} PROPERTIES
    LINKER_LANGUAGE C
    ARCHIVE_OUTPUT_DIRECTORY ${GLEBE_OUTPUT_DIR}
    LIBRARY_OUTPUT_DIRECTORY ${GLEBE_OUTPUT_DIR}
    RUNTIME_OUTPUT_DIRECTORY ${GLEBE_OUTPUT_DIR})
  if(kind STREQUAL "SHARED")
    target_link_options(${name} PRIVATE ${glebe_link_options})
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/compact.ld)
    set_target_properties(${name} PROPERTIES
      VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR})
  endif()
endfunction()

# Gives what a shared library exports the versions of a script for the linker, where that knows such scripts.
function(glebe_exports name map)
  if(NOT APPLE AND NOT WIN32)
    target_link_options(${name} PRIVATE LINKER:--version-script=${map})
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${map})
  endif()
endfunction()

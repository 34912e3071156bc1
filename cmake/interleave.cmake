# test/interleave: three tests that run the source under a scheduler of their own, on 64-bit Linux.
#
#     src/*.c  --subject-->  subject.c           --gcc -fsanitize=thread-->  calls to hooks.c, which stands in for the
#              --subject-->  planted.c + copies                              sanitizer's library, which is not linked
#
# The subjects borrow no blocks (remote.c), so each remote free of a case is sent to its page. They take no samples:
# these would be more points at which threads can be switched.
#
# Sanitizers cannot follow the switches between stacks, and the result is the same on every processor.

if(GLEBE_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  return()
endif()

find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(interleave ${PROJECT_SOURCE_DIR}/test/interleave)
set(interleave_made ${PROJECT_BINARY_DIR}/interleave)
file(GLOB interleave_subject CONFIGURE_DEPENDS src/*.c src/*/*.c)
file(GLOB interleave_cases CONFIGURE_DEPENDS ${interleave}/cases*.c)

foreach(kind subject planted)
  set(option "")
  if(kind STREQUAL planted)
    set(option --planted)
  endif()
  add_custom_command(OUTPUT ${interleave_made}/${kind}.c
    COMMAND ${Python3_EXECUTABLE} ${interleave}/subject ${interleave_made}/${kind}.c ${option}
    DEPENDS ${interleave}/subject ${interleave}/planted.py ${interleave_subject})
  add_library(interleave-${kind} OBJECT ${interleave_made}/${kind}.c)
  foreach(folder base region heap retain linear serve api gc debug) # the copies include headers of their old folders
    target_include_directories(interleave-${kind} PRIVATE ${PROJECT_SOURCE_DIR}/src/${folder})
  endforeach()
  target_compile_options(interleave-${kind} PRIVATE -fsanitize=thread -O1 -g -UNDEBUG)
  target_compile_definitions(interleave-${kind} PRIVATE GB_PORT_FAKE=1 # the test sets the time
    GB_BORROWS=0 GB_SAMPLES=0 GB_SNAPSHOTS=0)
endforeach()
target_compile_options(interleave-subject PRIVATE ${glebe_warnings})
target_compile_options(interleave-planted PRIVATE -w)

# The checker only reads, while no thread runs, so it is compiled without the hooks, which makes it fast.
add_library(interleave-engine OBJECT ${interleave}/engine.c ${interleave}/races.c ${interleave}/hooks.c
  ${interleave}/host.c ${interleave_cases} ${PROJECT_SOURCE_DIR}/src/debug/check.c
  ${PROJECT_SOURCE_DIR}/src/debug/check_region.c)
target_compile_options(interleave-engine PRIVATE ${glebe_warnings} -g -O2 -UNDEBUG)
target_compile_definitions(interleave-engine PRIVATE GB_BORROWS=0 GB_SAMPLES=0 GB_SNAPSHOTS=0)

foreach(name engine protocols planted)
  set(kind subject)
  if(name STREQUAL planted)
    set(kind planted)
  endif()
  set(target test-interleave-${name})
  add_executable(${target} ${interleave}/${name}_test.c $<TARGET_OBJECTS:interleave-engine>
    $<TARGET_OBJECTS:interleave-${kind}>)
  target_compile_options(${target} PRIVATE ${glebe_warnings} -g -UNDEBUG)
  if(name STREQUAL protocols) # the longest: in two parts, which start first, beside each other
    foreach(part 0 1)
      add_test(NAME interleave/${name}-${part} COMMAND ${target} -part=${part}/2)
      set_tests_properties(interleave/${name}-${part} PROPERTIES TIMEOUT 1800 COST 100)
    endforeach()
  else()
    add_test(NAME interleave/${name} COMMAND ${target})
    set_tests_properties(interleave/${name} PROPERTIES TIMEOUT 1800)
  endif()
  add_dependencies(glebe-tests ${target})
endforeach()
set_source_files_properties(${interleave}/engine_test.c PROPERTIES COMPILE_OPTIONS -fsanitize=thread)

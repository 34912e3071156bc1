# C tests: each *_test.c of test/unit, test/model, test/regress and test/interleave is one executable and one ctest.
#
#   cmake -S . -B DIR -DGLEBE_BUILD_TESTS=ON [-DGLEBE_SANITIZE=address,undefined] [-DCMAKE_TOOLCHAIN_FILE=...]
#   cmake --build DIR --target glebe-tests && ctest --test-dir DIR --no-tests=error
#
# Assertions stay on (-UNDEBUG). An empty suite is an error, for a suite that silently lost its tests is green too.

file(GLOB test_sources CONFIGURE_DEPENDS test/unit/*_test.c test/model/*_test.c test/regress/*_test.c)
if(NOT test_sources)
  message(FATAL_ERROR "GLEBE_BUILD_TESTS is on, but test/unit, test/model and test/regress hold no *_test.c")
endif()

# These switch stacks under a scheduler of their own, which sanitizers cannot follow, and give the same answer on
# every processor.
if(NOT GLEBE_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  file(GLOB interleave_sources CONFIGURE_DEPENDS test/interleave/*_test.c)
  list(APPEND test_sources ${interleave_sources})
endif()

find_path(CMOCKA_INCLUDE_DIR cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)
if(NOT CMOCKA_INCLUDE_DIR OR NOT CMOCKA_LIBRARY)
  message(FATAL_ERROR "cmocka not found: run `tools/setup test` (for other processors: `tools/setup foreign`)")
endif()

set(sanitize "")
if(GLEBE_SANITIZE)
  set(sanitize -fsanitize=${GLEBE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
endif()

add_custom_target(glebe-tests)
foreach(source IN LISTS test_sources)
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/test ${source})
  string(REGEX REPLACE "_test\\.c$" "" name ${name}) # unit/page
  string(REPLACE "/" "-" target "test-${name}")      # test-unit-page
  add_executable(${target} ${source})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                                               ${PROJECT_SOURCE_DIR}/src ${CMOCKA_INCLUDE_DIR})
  target_compile_options(${target} PRIVATE ${glebe_warnings} ${sanitize} -UNDEBUG)
  target_link_options(${target} PRIVATE ${sanitize})
  target_link_libraries(${target} PRIVATE ${CMOCKA_LIBRARY} Threads::Threads)
  add_test(NAME ${name} COMMAND ${target})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
  add_dependencies(glebe-tests ${target})
endforeach()

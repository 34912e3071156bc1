# C tests: each *_test.c of test/unit, test/model and test/regress is one executable and one ctest; test/interleave is built
# by interleave.cmake.
#
#   cmake -S . -B DIR -DGLEBE_BUILD_TESTS=ON [-DGLEBE_SANITIZE=address,undefined] [-DCMAKE_TOOLCHAIN_FILE=...]
#   cmake --build DIR --target glebe-tests && ctest --test-dir DIR --no-tests=error
#
# Assertions stay on (-UNDEBUG). An empty suite is an error, for a suite that silently lost its tests is green too.

file(GLOB test_sources CONFIGURE_DEPENDS test/unit/*_test.c test/model/*_test.c test/regress/*_test.c)
if(GLEBE_SANITIZE STREQUAL "thread")
  list(FILTER test_sources EXCLUDE REGEX "linear_test[.]c$") # that build has no threads
endif()
if(NOT test_sources)
  message(FATAL_ERROR "GLEBE_BUILD_TESTS is on, but test/unit, test/model and test/regress hold no *_test.c")
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
  if(CMAKE_CROSSCOMPILING_EMULATOR OR GLEBE_SANITIZE) # ten times slower: less of it, but one seed for each kind of host
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "GLEBE_TEST_SEEDS=8;GLEBE_TEST_STEPS=150;GLEBE_TEST_STRIDE=5")
  endif()
  add_dependencies(glebe-tests ${target})
endforeach()

# Stress: each program of test/stress on the real port with real threads, briefly and with a fixed seed. test/stress/run
# has them run for as long as one likes, with seeds of their own.
file(GLOB stress_sources CONFIGURE_DEPENDS test/stress/*.c)
add_library(glebe-stressed STATIC EXCLUDE_FROM_ALL src/glebe.c)
target_compile_options(glebe-stressed PRIVATE ${glebe_warnings} ${sanitize})
set(stress_rounds_cross 3)
set(stress_rounds_pipeline 2)
set(stress_rounds_churn 20)
set(stress_rounds_resize 4)
set(stress_rounds_fork 8)
set(stress_rounds_heaps 6)
set(stress_rounds_collect 4)
foreach(source IN LISTS stress_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(test-stress-${name} ${source})
  target_include_directories(test-stress-${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(test-stress-${name} PRIVATE _GNU_SOURCE)
  target_compile_options(test-stress-${name} PRIVATE ${glebe_warnings} ${sanitize} -UNDEBUG)
  target_link_options(test-stress-${name} PRIVATE ${sanitize})
  target_link_libraries(test-stress-${name} PRIVATE glebe-stressed Threads::Threads ${CMAKE_DL_LIBS})
  if(NOT DEFINED stress_rounds_${name})
    message(FATAL_ERROR "${source}: how many rounds shall its ctest run? Say so in cmake/tests.cmake")
  endif()
  add_test(NAME stress/${name} COMMAND test-stress-${name} ${stress_rounds_${name}} 20261121)
  # ThreadSanitizer would give up where a process with threads forks, which is what we promise to survive.
  set(environment "TSAN_OPTIONS=die_after_fork=0 halt_on_error=1")
  if(CMAKE_CROSSCOMPILING_EMULATOR OR GLEBE_SANITIZE)
    list(APPEND environment "STRESS_CHILD_WITHOUT_THREADS=1")
  endif()
  set_tests_properties(stress/${name} PROPERTIES TIMEOUT 300 ENVIRONMENT "${environment}")
  add_dependencies(glebe-tests test-stress-${name})
endforeach()

include(cmake/interleave.cmake)

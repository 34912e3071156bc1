# C tests: each *_test.c of test/unit, test/model and test/regress is one executable and one ctest; test/interleave is
# built by interleave.cmake. They share the core: test/unit/core.c is compiled once for each set of constants that
# tests define. A test that includes only glebe.h gets the real port, like the programs of test/stress.
#
#   cmake -S . -B DIR -DGLEBE_BUILD_TESTS=ON [-DGLEBE_SANITIZE=address,undefined] [-DCMAKE_TOOLCHAIN_FILE=...]
#                     [-DGLEBE_TEST_LONG=ON]
#   cmake --build DIR --target glebe-tests && ctest --test-dir DIR --no-tests=error
#
# Slow configurations do less unless GLEBE_TEST_LONG is on: models run few seeds under sanitizers and with 32-bit
# pointers, none under emulators, and ThreadSanitizer sees only the tests that start threads. The other tests simulate
# threads on one real thread.
#
# Assertions stay on (-UNDEBUG). An empty suite is an error: a suite that silently lost its tests would pass too.

# Leaves the sources in test_sources that have a line like `expression`; with EXCLUDE, the others.
macro(filter_by_content mode expression)
  set(all ${test_sources})
  set(test_sources "")
  foreach(source IN LISTS all)
    file(STRINGS ${source} found REGEX ${expression} LIMIT_COUNT 1)
    if((found AND "${mode}" STREQUAL "INCLUDE") OR (NOT found AND "${mode}" STREQUAL "EXCLUDE"))
      list(APPEND test_sources ${source})
    endif()
  endforeach()
endmacro()

file(GLOB test_sources CONFIGURE_DEPENDS test/unit/*_test.c test/model/*_test.c test/regress/*_test.c)
if(GLEBE_SANITIZE STREQUAL "thread")
  list(FILTER test_sources EXCLUDE REGEX "linear_test[.]c$") # that build has no threads
  if(NOT GLEBE_TEST_LONG)
    filter_by_content(INCLUDE "pthread_create")
  endif()
endif()
if(GLEBE_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux"
   OR NOT CMAKE_BUILD_TYPE MATCHES "Rel")
  list(FILTER test_sources EXCLUDE REGEX "count_test[.]c$") # counts this processor's instructions, of optimized code
endif()
if((GLEBE_SANITIZE OR CMAKE_CROSSCOMPILING) AND NOT GLEBE_TEST_LONG)
  list(FILTER test_sources EXCLUDE REGEX "months_test[.]c$") # as long as a tenth of the others: natively only
endif()
if(CMAKE_CROSSCOMPILING_EMULATOR AND NOT GLEBE_TEST_LONG)
  list(FILTER test_sources EXCLUDE REGEX "/model/") # they take a third of the emulator's time, and the same steps
  filter_by_content(EXCLUDE "^#define GB_LINEAR 1") # WebAssembly has 32 bits, as i686 has: three more compilations
endif()
if(NOT test_sources)
  message(FATAL_ERROR "GLEBE_BUILD_TESTS is on, but test/unit, test/model and test/regress hold no *_test.c")
endif()

find_path(CMOCKA_INCLUDE_DIR cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)
if(NOT CMOCKA_INCLUDE_DIR OR NOT CMOCKA_LIBRARY)
  message(FATAL_ERROR "cmocka not found: run `tools/setup test` (for other processors: `tools/setup foreign`)")
endif()

# Compiling the core takes most of the time: with sanitizers 17 seconds at -O2 -g, 3.5 with these flags; without
# sanitizers 6.5 and 3. A test that links it takes 0.3 at -O2, and 0.1 at -O0. If a test includes the core,
# -fwhole-program makes gcc drop the functions that the test does not call. For a debugger use -DCMAKE_BUILD_TYPE=Debug.
set(sanitize "")
set(quick "")
if(GLEBE_SANITIZE)
  set(sanitize -fsanitize=${GLEBE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
elseif(CMAKE_BUILD_TYPE MATCHES "Rel" AND NOT GLEBE_TEST_LONG)
  set(quick -g0)
  if(CMAKE_CROSSCOMPILING)
    list(APPEND quick -O1)
  endif()
endif()
set(quick_whole "")
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT GLEBE_TEST_LONG)
  set(quick_whole -fwhole-program)
endif()

set(timeout 1800) # for hangs: ten times the slowest test's time in a parallel run
if(GLEBE_TEST_LONG)
  set(timeout 3600)
endif()

# Sets *target to a library of the core with these constants ("GB_LINEAR=1;GB_STACKS=1").
function(core_with constants target)
  string(MAKE_C_IDENTIFIER "test-core ${constants}" name)
  if(NOT TARGET ${name})
    add_library(${name} STATIC EXCLUDE_FROM_ALL test/unit/core.c)
    target_compile_definitions(${name} PRIVATE ${constants})
    target_compile_options(${name} PRIVATE ${glebe_warnings} ${sanitize} -UNDEBUG ${quick})
  endif()
  set(${target} ${name} PARENT_SCOPE)
endfunction()

add_custom_target(glebe-tests)
foreach(source IN LISTS test_sources)
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/test ${source})
  string(REGEX REPLACE "_test\\.c$" "" name ${name}) # unit/page
  string(REPLACE "/" "-" target "test-${name}")      # test-unit-page
  add_executable(${target} ${source})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
                                               ${PROJECT_SOURCE_DIR}/src ${CMOCKA_INCLUDE_DIR})
  target_compile_options(${target} PRIVATE ${glebe_warnings} ${sanitize} -UNDEBUG)
  file(STRINGS ${source} constants REGEX "^#define GB_[A-Z_]+ [0-9]+$")
  list(TRANSFORM constants REPLACE "^#define ([A-Z_]+) ([0-9]+)$" "\\1=\\2")
  file(STRINGS ${source} whole REGEX "src/glebe[.]c")
  file(STRINGS ${source} real REGEX "^#include \"glebe[.]h\"")
  if(real)
    target_link_libraries(${target} PRIVATE glebe-stressed ${CMAKE_DL_LIBS})
    target_compile_options(${target} PRIVATE ${quick})
  elseif(NOT whole)
    core_with("${constants}" core)
    target_link_libraries(${target} PRIVATE ${core})
    target_compile_definitions(${target} PRIVATE FIXTURE_LINKED)
    target_compile_options(${target} PRIVATE ${quick})
    if(NOT GLEBE_TEST_LONG AND NOT MSVC AND NOT name MATCHES "^model/") # only models spend time in their own code
      target_compile_options(${target} PRIVATE -O0)
    endif()
  elseif(name MATCHES "_count$") # those count the instructions of the code that users get
    target_compile_options(${target} PRIVATE -O2 -g0)
  else()
    target_compile_options(${target} PRIVATE ${quick} ${quick_whole})
  endif()
  target_link_options(${target} PRIVATE ${sanitize})
  target_link_libraries(${target} PRIVATE ${CMOCKA_LIBRARY} Threads::Threads)
  add_test(NAME ${name} COMMAND ${target})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout})
  if(name MATCHES "^model/")
    set_tests_properties(${name} PROPERTIES COST 10) # models take longest, so they start first
  endif()
  # Up to ten times slower: one seed for each kind of host, and fewer steps where a step makes a whole graph, or where
  # each collection is followed by a search of all objects for contents.
  if((CMAKE_CROSSCOMPILING OR GLEBE_SANITIZE) AND NOT GLEBE_TEST_LONG)
    set(steps 150)
    if(name MATCHES "^model/collect_(content|stacks)")
      set(steps 40)
    elseif(name MATCHES "^model/collect")
      set(steps 75)
    endif()
    set(less "GLEBE_TEST_SEEDS=8;GLEBE_TEST_STEPS=${steps};GLEBE_TEST_STRIDE=5")
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${less}")
  endif()
  add_dependencies(glebe-tests ${target})
endforeach()

# Stress: each program of test/stress on the real port with real threads, briefly and with a fixed seed. test/stress/run
# runs them for any length of time, with random seeds.
file(GLOB stress_sources CONFIGURE_DEPENDS test/stress/*.c)
add_library(glebe-stressed STATIC EXCLUDE_FROM_ALL src/glebe.c)
target_compile_options(glebe-stressed PRIVATE ${glebe_warnings} ${sanitize} ${quick})
set(stress_rounds_cross 3)
set(stress_rounds_pipeline 2)
set(stress_rounds_churn 20)
set(stress_rounds_resize 4)
set(stress_rounds_fork 8)
set(stress_rounds_heaps 6)
set(stress_rounds_collect 4)
set(stress_rounds_markers 2)
set(stress_rounds_profile 3)
foreach(source IN LISTS stress_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(test-stress-${name} ${source})
  target_include_directories(test-stress-${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(test-stress-${name} PRIVATE _GNU_SOURCE)
  target_compile_options(test-stress-${name} PRIVATE ${glebe_warnings} ${sanitize} -UNDEBUG)
  target_link_options(test-stress-${name} PRIVATE ${sanitize})
  target_link_libraries(test-stress-${name} PRIVATE glebe-stressed Threads::Threads ${CMAKE_DL_LIBS})
  if(NOT DEFINED stress_rounds_${name})
    message(FATAL_ERROR "${source}: how many rounds does its ctest run? Say so in cmake/tests.cmake")
  endif()
  add_test(NAME stress/${name} COMMAND test-stress-${name} ${stress_rounds_${name}} 20261121)
  # By default ThreadSanitizer gives up when a process with threads forks, which glebe promises to survive.
  set(environment "TSAN_OPTIONS=die_after_fork=0 halt_on_error=1")
  if(CMAKE_CROSSCOMPILING_EMULATOR OR GLEBE_SANITIZE)
    list(APPEND environment "STRESS_CHILD_WITHOUT_THREADS=1")
  endif()
  set_tests_properties(stress/${name} PROPERTIES TIMEOUT ${timeout} ENVIRONMENT "${environment}")
  add_dependencies(glebe-tests test-stress-${name})
endforeach()

include(cmake/interleave.cmake)

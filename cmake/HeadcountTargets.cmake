# The three kinds of target this project has, so that warnings, sanitizers and include roots are said once.
#
#   hc_library(NAME SOURCES ... DEPS ...)      a static library; includes are written from the repository root
#   hc_program(NAME SOURCES ... DEPS ...)      an executable in <build>/bin
#   hc_test(NAME SOURCES ... DEPS ... [LABELS ...])   a GoogleTest executable, one ctest entry for the whole file

add_library(hc_flags INTERFACE)
target_include_directories(hc_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(hc_flags INTERFACE -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  # gcc 12 reports these inside libstdc++ at -O2 for correct code (bug 105329 and relatives).
  target_compile_options(hc_flags INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-maybe-uninitialized)
endif()
if(HEADCOUNT_SANITIZE)
  target_compile_options(hc_flags INTERFACE -fsanitize=${HEADCOUNT_SANITIZE} -fno-sanitize-recover=all
                                            -fno-omit-frame-pointer -Wno-maybe-uninitialized -Wno-restrict
                                            -Wno-stringop-overflow -Wno-tsan)
  target_link_options(hc_flags INTERFACE -fsanitize=${HEADCOUNT_SANITIZE})
  if(HEADCOUNT_SANITIZE MATCHES "thread")
    # Where this is defined, protobuf's headers add members to maps that the packaged library does not have.
    target_compile_options(hc_flags INTERFACE -U__SANITIZE_THREAD__)
  endif()
endif()

function(hc_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE hc_flags PUBLIC ${ARG_DEPS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
endfunction()

function(hc_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE hc_flags ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

function(hc_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE hc_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  # A test asks libtorch for more memory than there is: AddressSanitizer shall refuse as an allocator does.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                       ENVIRONMENT "HEADCOUNT_BUILD=${CMAKE_BINARY_DIR};OMP_WAIT_POLICY=PASSIVE;ASAN_OPTIONS=allocator_may_return_null=1")
endfunction()

# Where each dependency comes from (docs/decisions/0001-dependencies.md). Debian packages are found as usual; libtorch
# and Arrow lie under the folder that deploy/setup.sh filled, named by the digest of the pinned versions.
if(NOT HEADCOUNT_DEPS)
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/deploy/setup.sh --print-prefix
                  OUTPUT_VARIABLE HEADCOUNT_DEPS OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(GTest REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED)
pkg_check_modules(SQLITE3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

if(NOT HEADCOUNT_LIGHT)
  find_package(prometheus-cpp REQUIRED)
  find_package(CLI11 QUIET)
  if(NOT TARGET CLI11::CLI11)  # header-only; not every distribution's package brings its CMake file
    find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
    add_library(CLI11::CLI11 INTERFACE IMPORTED)
    target_include_directories(CLI11::CLI11 SYSTEM INTERFACE ${CLI11_INCLUDE_DIR})
  endif()
  find_package(benchmark REQUIRED)
  pkg_check_modules(GRPCPP REQUIRED IMPORTED_TARGET grpc++)

  if(NOT IS_DIRECTORY ${HEADCOUNT_DEPS})
    message(FATAL_ERROR "the pinned libraries are not in ${HEADCOUNT_DEPS}; run deploy/setup.sh")
  endif()

  # libtorch from the torch wheel: only the CPU library and c10 are linked; the CUDA library is loaded at run time.
  # The wheel's libraries find each other, and the CUDA runtime in ${HEADCOUNT_DEPS}/nvidia, by their own run paths.
  set(_torch ${HEADCOUNT_DEPS}/torch)
  add_library(torch_cpu SHARED IMPORTED)
  set_target_properties(torch_cpu PROPERTIES IMPORTED_LOCATION ${_torch}/lib/libtorch_cpu.so)
  add_library(c10 SHARED IMPORTED)
  set_target_properties(c10 PROPERTIES IMPORTED_LOCATION ${_torch}/lib/libc10.so)
  add_library(hc_torch INTERFACE)
  target_include_directories(hc_torch SYSTEM INTERFACE ${_torch}/include)
  target_link_libraries(hc_torch INTERFACE torch_cpu c10)

  # Arrow and Parquet from the pyarrow wheel.
  set(_arrow ${HEADCOUNT_DEPS}/pyarrow)
  file(GLOB _arrow_so ${_arrow}/libarrow.so.*)
  file(GLOB _parquet_so ${_arrow}/libparquet.so.*)
  add_library(arrow SHARED IMPORTED)
  set_target_properties(arrow PROPERTIES IMPORTED_LOCATION ${_arrow_so})
  add_library(parquet SHARED IMPORTED)
  set_target_properties(parquet PROPERTIES IMPORTED_LOCATION ${_parquet_so})
  add_library(hc_arrow INTERFACE)
  target_include_directories(hc_arrow SYSTEM INTERFACE ${_arrow}/include)
  target_link_libraries(hc_arrow INTERFACE parquet arrow)
endif()

# capstan_add_test(<name> SOURCES <file>...): a Catch2 program of a plugin's tests, which CTest runs.
#
# A plugin exports nothing but its entry, so its own sources are listed beside its tests. #include <capstan_catch.h>
# serves Catch2 2 and 3. CTest runs them where the project calls enable_testing().
#
# Needs before it is included: the target capstan::sdk. Makes capstan_catch_main, Catch2's main(), when it is first used.
include_guard(DIRECTORY)

function(capstan_make_catch_main)
  if(TARGET capstan_catch_main)
    return()
  endif()
  find_package(Catch2 REQUIRED)
  set(folder "${CMAKE_BINARY_DIR}/tests")
  if(Catch2_VERSION VERSION_LESS 3)
    set(main "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n")
    set(header "#pragma once\n#include <catch2/catch.hpp>\n")
  else()
    set(main "#include <catch2/catch_session.hpp>\nint main(int argc, char** argv) { return Catch::Session().run(argc, argv); }\n")
    set(header "#pragma once\n#include <catch2/catch_all.hpp>\nusing Catch::Approx;\nusing Catch::Matchers::Contains;\n")
  endif()
  file(CONFIGURE OUTPUT "${folder}/catch_main.cc" CONTENT "${main}")
  file(CONFIGURE OUTPUT "${folder}/include/capstan_catch.h" CONTENT "${header}")
  add_library(capstan_catch_main OBJECT "${folder}/catch_main.cc")
  target_compile_features(capstan_catch_main PRIVATE cxx_std_20)
  target_include_directories(capstan_catch_main PUBLIC "${folder}/include")
  target_link_libraries(capstan_catch_main PUBLIC Catch2::Catch2)
endfunction()

function(capstan_add_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES" ${ARGN})
  if(NOT TEST_SOURCES)
    message(FATAL_ERROR "capstan_add_test(${name}): SOURCES is empty")
  endif()
  if(TEST_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "capstan_add_test(${name}): unknown arguments ${TEST_UNPARSED_ARGUMENTS}")
  endif()
  capstan_make_catch_main()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE capstan::sdk capstan_catch_main)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

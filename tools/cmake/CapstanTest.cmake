# capstan_add_test(<name> [PLUGIN <target>] SOURCES <file>...): a Catch2 program of tests, which CTest runs where the
# project calls enable_testing(). #include <capstan_catch.h> serves Catch2 2 and 3.
#
# PLUGIN: what plugin_<kind>_<name> was compiled from, with which folders, and is linked with, is the test's too, since
# a plugin exports nothing but its entry.
#
# Needs before it is included: the target capstan::engine and CapstanPlugin.cmake, whose precompiled header and flags it
# shares. Makes capstan_catch_main, Catch2's main(), when it is first used.
include_guard(DIRECTORY)

function(capstan_make_catch_main)
  if(TARGET capstan_catch_main)
    return()
  endif()
  find_package(Catch2 REQUIRED)
  set(folder "${CMAKE_BINARY_DIR}/tests")
  # c10's logging has a CHECK of its own, which ends the process: Catch's wins, whatever is included first.
  set(before "#pragma once\n#if __has_include(<c10/util/Logging.h>)\n#include <c10/util/Logging.h>\n#undef CHECK\n#endif\n")
  if(Catch2_VERSION VERSION_LESS 3)
    set(main "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n")
    set(header "${before}#include <catch2/catch.hpp>\nusing Catch::Matchers::Contains;\n")
  else()
    set(main "#include <catch2/catch_session.hpp>\nint main(int argc, char** argv) { return Catch::Session().run(argc, argv); }\n")
    # What Catch2 2 calls Contains is of strings, what 3 calls so of ranges.
    set(header "${before}#include <catch2/catch_all.hpp>\n#include <string>\nusing Catch::Approx;\ninline auto Contains(const std::string& text) { return Catch::Matchers::ContainsSubstring(text); }\n")
  endif()
  file(CONFIGURE OUTPUT "${folder}/catch_main.cc" CONTENT "${main}")
  file(CONFIGURE OUTPUT "${folder}/include/capstan_catch.h" CONTENT "${header}")
  add_library(capstan_catch_main OBJECT "${folder}/catch_main.cc")
  target_compile_features(capstan_catch_main PRIVATE cxx_std_20)
  target_compile_options(capstan_catch_main PRIVATE -O0 -g0)   # compiled in a fifth of the time
  target_include_directories(capstan_catch_main PUBLIC "${folder}/include")
  target_link_libraries(capstan_catch_main PUBLIC Catch2::Catch2)
endfunction()

function(capstan_add_test name)
  cmake_parse_arguments(TEST "" "PLUGIN" "SOURCES" ${ARGN})
  if(NOT TEST_SOURCES)
    message(FATAL_ERROR "capstan_add_test(${name}): SOURCES is empty")
  endif()
  if(TEST_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "capstan_add_test(${name}): unknown arguments ${TEST_UNPARSED_ARGUMENTS}")
  endif()
  if(TEST_PLUGIN AND NOT TARGET ${TEST_PLUGIN})
    message(FATAL_ERROR "capstan_add_test(${name}): there is no target ${TEST_PLUGIN}; a plugin's is plugin_<kind>_<name>")
  endif()
  capstan_make_catch_main()
  if(TEST_PLUGIN)
    list(APPEND TEST_SOURCES "$<TARGET_OBJECTS:${TEST_PLUGIN}>")
    if(TARGET ${TEST_PLUGIN}_code)   # SHARED_CODE
      list(APPEND TEST_SOURCES "$<TARGET_OBJECTS:${TEST_PLUGIN}_code>")
    endif()
  endif()
  add_executable(${name} ${TEST_SOURCES})
  set_target_properties(${name} PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  target_link_libraries(${name} PRIVATE capstan::engine capstan_catch_main)
  if(TEST_PLUGIN)
    get_target_property(libraries ${TEST_PLUGIN} LINK_LIBRARIES)
    get_target_property(folders ${TEST_PLUGIN} INCLUDE_DIRECTORIES)
    target_link_libraries(${name} PRIVATE ${libraries})
    get_target_property(place ${TEST_PLUGIN} CAPSTAN_PLACE)
    target_compile_definitions(${name} PRIVATE "CAPSTAN_TESTED_PLUGIN=\"${place}\"")   # testing::linked
    if(folders)
      target_include_directories(${name} PRIVATE ${folders})
    endif()
    get_target_property(header ${TEST_PLUGIN} PRECOMPILE_HEADERS_REUSE_FROM)
    if(header STREQUAL capstan_pch)   # as the header was compiled: programs are -fPIE otherwise, and clang++ takes no header of another visibility
      target_compile_options(${name} PRIVATE -fPIC)
      set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
      capstan_precompiled(${name} engine)
    endif()
  endif()
  capstan_debug_lines(${name})
  # Compiled in seven eighths of the time that -O2 takes.
  target_compile_options(${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-Og>)
  if(TARGET capstan::testing)
    target_link_libraries(${name} PRIVATE capstan::testing)
  endif()
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# Flags that every target of the tree shares. Precompiled headers serve many of
# them, so anything that changes code generation belongs here and nowhere else.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

option(CAPSTAN_CUDA "build the GPU module (needs nvcc)" OFF)
set(CAPSTAN_SANITIZE "" CACHE STRING "sanitizers to build with, e.g. address,undefined")

# Where each library has a C++ runtime of its own, none of them sees the exceptions that others handle, nor those that are
# under way. Some compilers bring libstdc++ only as an archive.
if(NOT DEFINED CAPSTAN_SHARED_RUNTIME)
  set(_probe "${CMAKE_BINARY_DIR}/CMakeFiles/runtime-probe")
  try_compile(_links SOURCE_FROM_CONTENT runtime.cc "#include <stdexcept>\nint main(int n, char**) { if (n > 9) throw std::runtime_error(\"x\"); }\n"
    COPY_FILE "${_probe}")
  if(_links)
    file(STRINGS "${_probe}" _shared REGEX "libstdc\\+\\+\\.so|libc\\+\\+\\.so" LIMIT_COUNT 1)
    if(NOT _shared)
      message(FATAL_ERROR "${CMAKE_CXX_COMPILER} links a C++ runtime of its own into each library and program, so that "
        "exceptions could not pass from one to another. Choose a compiler that has libstdc++.so, say "
        "`CXX=/usr/bin/g++ cmake --preset cpu --fresh`, and leave -static-libstdc++ out of its flags.")
    endif()
  endif()
  set(CAPSTAN_SHARED_RUNTIME ON CACHE INTERNAL "programs are linked with libstdc++.so")
endif()

# The build tree has the shape of an installation: bin/, lib/, lib/capstan/plugins/<kind>/.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Winvalid-pch>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overruns in C++20's constexpr std::string that are not there (GCC bugs 105329 and 105651). Later ones
  # see some in fmt's headers, which a user cannot fix, so that there warnings are no errors.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Werror;-Wno-array-bounds;-Wno-restrict>")
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")   # … and there those of std::vector::insert
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overread;-Wno-stringop-overflow>")
  endif()
endif()
if(CAPSTAN_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${CAPSTAN_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=undefined>")
  add_link_options("-fsanitize=${CAPSTAN_SANITIZE}")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # pch_defines,time_macros: what ccache needs to cache files that use a precompiled header.
  # BASEDIR, NOHASHDIR: paths count relative to the build folder, so that presets and worktrees share objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()

# capstan_add_plugin(<name> KIND model|strategy|optimizer|objective|data|tokenizer|monitor|command [ENGINE] [SHARED_CODE] SOURCES <file>...
#                    [LIBRARIES <target or file>...] [INCLUDES <folder>...] [OUTPUT_DIRECTORY <folder>] [ABI_TAG <text>])
#
# Makes the target plugin_<kind>_<name>: one MODULE <name>.so that exports one
# symbol and carries the ABI note which the host reads before it opens the file.
# In Capstan's own tree the file lands in lib/capstan/plugins/<kind>/, where the
# host looks for it; elsewhere in <build>/plugins/<kind>/, for CAPSTAN_PLUGIN_PATH.
# It is installed to lib/capstan/plugins/<kind>/, but not with OUTPUT_DIRECTORY.
# LIBRARIES: what else the plugin is linked with: targets such as capstan::decoder or Arrow::arrow_shared, or files.
# INCLUDES: folders of headers that no target brings. The plugin finds shared libraries where the build found them; when it
# is installed, those outside of the project. Its tests (capstan_add_test) get the same libraries and folders.
# SHARED_CODE: what neither is the entry (CAPSTAN_STRATEGY, …) nor defines operators (TORCH_LIBRARY) is compiled as target
# plugin_<kind>_<name>_code, for tests of several plugins, and for tests that open <name>.so as well.
# ABI_TAG writes another tag into the note: only tests of the host need it.
#
# Models, strategies, optimizers and objectives need the engine, and so LibTorch: they are built with capstan::engine.
# Data, tokenizers, monitors and commands are built with capstan::host, which has neither LibTorch's headers nor its libraries, unless they say ENGINE
# or have kernels. The note says which: needs=host or needs=engine.
#
# *.cu and *_cuda.cc among the sources make up <name>_cuda.so next to it (target
# plugin_<kind>_<name>_cuda; only with CAPSTAN_CUDA), which ranks that use GPUs
# open too. It exports nothing: it registers CUDA implementations of operators
# that <name>.so defines (TORCH_LIBRARY_IMPL).
#
# ATen's headers take longer to compile than a plugin. Those that need the engine share a precompiled
# header, made with the first one of a build folder (target capstan_pch; the same in Capstan's tree), and
# RelWithDebInfo writes line tables (-g1) where its flags are still CMake's own. To do without:
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON, flags of your own in CMAKE_CXX_FLAGS_RELWITHDEBINFO. Flags that change code
# (-march=native, -ffast-math) go for all targets of the project, before the first plugin: the compiler
# does not use a header that was compiled with others, and says so (-Winvalid-pch).
#
# Needs before it is included: the targets capstan::host and capstan::engine, CAPSTAN_VERSION, CAPSTAN_TORCH_VERSION, and
# with CAPSTAN_CUDA what CapstanCuda.cmake sets.
include_guard(DIRECTORY)
enable_language(ASM)

set(CAPSTAN_PLUGIN_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(CAPSTAN_PLUGIN_EXPORTS "${CMAKE_CURRENT_LIST_DIR}/plugin.exports")
set(CAPSTAN_PLUGIN_INSTALL_DIR lib/capstan/plugins)

# The compiler, as far as objects of C++ depend on it: the GCC whose standard library it uses. clang++ follows GCC's ABI, so
# with the headers of g++ 12 it is gcc12 too; with libc++ it is no GCC.
function(capstan_compiler_field result)
  string(REGEX MATCH "^[0-9]+" major "${CMAKE_CXX_COMPILER_VERSION}")
  string(TOLOWER "${CMAKE_CXX_COMPILER_ID}" id)
  string(REPLACE "gnu" "gcc" id "${id}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_COMPILER_ARG1} ${CMAKE_CXX_FLAGS}")
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" ${flags} -std=c++20 -x c++ -E -dM -include version /dev/null
      OUTPUT_VARIABLE macros COMMAND_ERROR_IS_FATAL ANY)
    if(macros MATCHES "define _GLIBCXX_RELEASE ([0-9]+)")
      set(id gcc)
      set(major "${CMAKE_MATCH_1}")
    endif()
  endif()
  set(${result} "${id}${major}" PARENT_SCOPE)
endfunction()

# The ABI tag: what must match between host and plugin, since C++ objects pass between them. Capstan 1.N.M has
# sdk=N.M, and takes plugins of the same N whose M is not above its own; all other fields must be equal. GPU files add
# their CUDA and NCCL versions.
string(REGEX REPLACE "^1[.]" "" CAPSTAN_SDK_VERSION "${CAPSTAN_VERSION}")
capstan_compiler_field(_cxx)
string(JOIN " " CAPSTAN_HOST_TAG "sdk=${CAPSTAN_SDK_VERSION}" "arch=${CMAKE_SYSTEM_PROCESSOR}"
  "cxx=${_cxx}" "std=c++20" "cxx11abi=1")
set(CAPSTAN_ABI_TAG "${CAPSTAN_HOST_TAG} torch=${CAPSTAN_TORCH_VERSION}")
set(CAPSTAN_GPU_ABI_TAG "${CAPSTAN_ABI_TAG} ${CAPSTAN_GPU_ABI_FIELDS}")

# Writes the note's source for a tag and returns its path: the same file for the same tag.
function(capstan_abi_note result CAPSTAN_NOTE_TAG)
  string(MD5 key "${CAPSTAN_NOTE_TAG}")
  set(file "${CMAKE_BINARY_DIR}/abi_note_${key}.S")
  configure_file("${CAPSTAN_PLUGIN_CMAKE_DIR}/abi_note.S.in" "${file}" @ONLY)
  set(${result} "${file}" PARENT_SCOPE)
endfunction()

# Line tables are what a stack trace needs; all that can be said of ATen's types takes longer to write than to compile.
# Unless the project has chosen for itself: anything but CMake's own flags stays.
function(capstan_debug_lines target)
  if("${CMAKE_CXX_FLAGS_RELWITHDEBINFO}" STREQUAL "-O2 -g -DNDEBUG" AND NOT "${CMAKE_CXX_FLAGS}" MATCHES "(^| )-g")
    target_compile_options(${target} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-g1>")
  endif()
endfunction()

# The target uses the build folder's precompiled header, which is made here for the first one. That of plugins without
# LibTorch is Capstan's tree's alone: a project of a few would not save what it costs.
function(capstan_precompiled target needs)
  if(needs STREQUAL host)
    if(TARGET capstan_host_pch)
      target_precompile_headers(${target} REUSE_FROM capstan_host_pch)
    endif()
    return()
  endif()
  if(NOT TARGET capstan_pch)   # in the tree core has one
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/capstan_pch.cc" CONTENT "// Owns the precompiled header.\n")
    add_library(capstan_pch OBJECT "${CMAKE_BINARY_DIR}/capstan_pch.cc")
    set_target_properties(capstan_pch PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(capstan_pch PRIVATE capstan::engine)
    target_precompile_headers(capstan_pch PRIVATE "${CAPSTAN_PLUGIN_CMAKE_DIR}/plugin_pch.h")
    capstan_debug_lines(capstan_pch)
  endif()
  target_precompile_headers(${target} REUSE_FROM capstan_pch)
endfunction()

# What a plugin's two files share.
function(capstan_plugin_library target file folder tag)
  capstan_abi_note(note "${tag}")
  add_library(${target} MODULE ${ARGN} "${note}")
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX ".so" OUTPUT_NAME "${file}"
    LIBRARY_OUTPUT_DIRECTORY "${folder}" LINK_DEPENDS "${CAPSTAN_PLUGIN_EXPORTS}"
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH "$ORIGIN/../../..;${CAPSTAN_TORCH_RPATH}" INSTALL_RPATH_USE_LINK_PATH ON)
  target_link_options(${target} PRIVATE "-Wl,--version-script=${CAPSTAN_PLUGIN_EXPORTS}" "-Wl,-z,defs")
  capstan_debug_lines(${target})
endfunction()

# Which of the files have the plugin's entry or define operators.
function(capstan_entry_files result)
  set(entries)
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" found REGEX "^ *(CAPSTAN_[A-Z_]+\\(\"|CAPSTAN_PLUGIN|TORCH_LIBRARY)" LIMIT_COUNT 1)
    if(found)
      list(APPEND entries "${source}")
    endif()
  endforeach()
  set(${result} ${entries} PARENT_SCOPE)
endfunction()

function(capstan_add_plugin name)
  cmake_parse_arguments(PLUGIN "ENGINE;SHARED_CODE" "KIND;OUTPUT_DIRECTORY;ABI_TAG" "SOURCES;LIBRARIES;INCLUDES" ${ARGN})
  if(NOT PLUGIN_KIND MATCHES "^(model|strategy|optimizer|objective|data|tokenizer|monitor|command)$")
    message(FATAL_ERROR "capstan_add_plugin(${name}): KIND must be model, strategy, optimizer, objective, data, tokenizer, monitor or command, not '${PLUGIN_KIND}'")
  endif()
  if(NOT name MATCHES "^[A-Za-z0-9_-]+$")
    message(FATAL_ERROR "capstan_add_plugin(${name}): a name has letters, digits, '_' and '-' only")
  endif()
  if(name MATCHES "_cuda$")
    message(FATAL_ERROR "capstan_add_plugin(${name}): NAME_cuda.so is the GPU module of plugin NAME; choose another name")
  endif()
  if(PLUGIN_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "capstan_add_plugin(${name}): unknown arguments ${PLUGIN_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT PLUGIN_SOURCES)
    message(FATAL_ERROR "capstan_add_plugin(${name}): SOURCES is empty")
  endif()
  set(gpu_sources ${PLUGIN_SOURCES})
  list(FILTER gpu_sources INCLUDE REGEX "(\\.cu|_cuda\\.cc)$")
  list(FILTER PLUGIN_SOURCES EXCLUDE REGEX "(\\.cu|_cuda\\.cc)$")
  if(NOT PLUGIN_SOURCES)
    message(FATAL_ERROR "capstan_add_plugin(${name}): SOURCES has kernels only; the plugin itself is a .cc file")
  endif()
  set(code)
  if(PLUGIN_SHARED_CODE)
    set(code ${PLUGIN_SOURCES})
    capstan_entry_files(PLUGIN_SOURCES ${code})
    list(REMOVE_ITEM code ${PLUGIN_SOURCES})
  endif()
  if(COMMAND capstan_unity)   # in the tree
    capstan_unity(PLUGIN_SOURCES ${PLUGIN_SOURCES})
    capstan_unity(code ${code})
  endif()
  set(folder "${PLUGIN_OUTPUT_DIRECTORY}")
  if(NOT folder AND CMAKE_LIBRARY_OUTPUT_DIRECTORY)
    set(folder "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/capstan/plugins/${PLUGIN_KIND}")
  elseif(NOT folder)
    set(folder "${CMAKE_BINARY_DIR}/plugins/${PLUGIN_KIND}")
  endif()
  set(needs host)
  set(tag "${CAPSTAN_HOST_TAG}")
  if(PLUGIN_ENGINE OR gpu_sources OR PLUGIN_KIND MATCHES "^(model|strategy|optimizer|objective)$")
    set(needs engine)
    set(tag "${CAPSTAN_ABI_TAG}")
  endif()
  if(PLUGIN_ABI_TAG)
    set(tag "${PLUGIN_ABI_TAG}")
  endif()
  set(target plugin_${PLUGIN_KIND}_${name})
  set(targets ${target})
  set(objects "$<TARGET_OBJECTS:${target}>")
  if(code)
    add_library(${target}_code OBJECT ${code})
    set_target_properties(${target}_code PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${target}_code PRIVATE capstan::${needs} ${PLUGIN_LIBRARIES})
    target_include_directories(${target}_code PRIVATE ${PLUGIN_INCLUDES})
    capstan_debug_lines(${target}_code)
    set(objects "$<TARGET_OBJECTS:${target}_code>")
    list(APPEND PLUGIN_SOURCES "${objects}")
  endif()
  capstan_plugin_library(${target} "${name}" "${folder}" "needs=${needs} ${tag}" ${PLUGIN_SOURCES})
  target_link_libraries(${target} PRIVATE capstan::${needs} ${PLUGIN_LIBRARIES})
  target_include_directories(${target} PRIVATE ${PLUGIN_INCLUDES})
  set_target_properties(${target} PROPERTIES CAPSTAN_PLACE "${PLUGIN_KIND}/${name}.so" CAPSTAN_OBJECTS "${objects}")
  capstan_precompiled(${target} ${needs})
  if(code)
    capstan_precompiled(${target}_code ${needs})
  endif()
  if(needs STREQUAL host)
    set_target_properties(${target} PROPERTIES BUILD_RPATH "" INSTALL_RPATH "$ORIGIN/../../..")
  endif()
  if(gpu_sources AND CAPSTAN_CUDA)
    capstan_plugin_library(${target}_cuda "${name}_cuda" "${folder}" "${CAPSTAN_GPU_ABI_TAG}" ${gpu_sources})
    target_link_libraries(${target}_cuda PRIVATE capstan::engine torch::cuda)
    target_compile_options(${target}_cuda PRIVATE ${CAPSTAN_CUDA_OPTIONS})
    add_dependencies(${target} ${target}_cuda)
    list(APPEND targets ${target}_cuda)
  elseif(gpu_sources)
    message(STATUS "${PLUGIN_KIND} plugin ${name}: without its kernels (CAPSTAN_CUDA is off)")
  endif()
  if(NOT PLUGIN_OUTPUT_DIRECTORY)
    install(TARGETS ${targets} LIBRARY DESTINATION "${CAPSTAN_PLUGIN_INSTALL_DIR}/${PLUGIN_KIND}")
    set_property(GLOBAL APPEND PROPERTY CAPSTAN_PLUGINS ${targets})
  endif()
endfunction()

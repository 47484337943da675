# Imports the pinned LibTorch as torch::cpu (and torch::cuda for the GPU module).
#
# Everything that depends on the LibTorch version stands here and in
# core/comm/gloo_shim. Looked for in: -DTorch_ROOT, the environment's Torch_ROOT,
# the tree's own .deps/torch (made by tools/setup).
set(CAPSTAN_TORCH_VERSION 2.11.0)
set(Torch_ROOT "$ENV{Torch_ROOT}" CACHE PATH "folder with LibTorch ${CAPSTAN_TORCH_VERSION} (lib/, include/)")
set(_torch "${Torch_ROOT}")
if(NOT _torch)
  set(_torch "${CMAKE_SOURCE_DIR}/.deps/torch")
endif()
if(EXISTS "${_torch}/torch/lib/libtorch_cpu.so")   # a site-packages folder was given
  set(_torch "${_torch}/torch")
endif()
if(NOT EXISTS "${_torch}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no LibTorch in ${_torch} (lib/libtorch_cpu.so is missing).\n"
    "Run tools/setup, or pass -DTorch_ROOT=<folder of torch ${CAPSTAN_TORCH_VERSION}>, "
    "for example $(python3 -c 'import torch;print(torch.__path__[0])').")
endif()
set(_version)
foreach(_part IN ITEMS MAJOR MINOR PATCH)
  file(STRINGS "${_torch}/include/torch/headeronly/version.h" _line REGEX "define TORCH_VERSION_${_part} ")
  string(REGEX REPLACE ".* " "" _line "${_line}")
  list(APPEND _version "${_line}")
endforeach()
string(REPLACE ";" "." _version "${_version}")
if(NOT _version VERSION_EQUAL CAPSTAN_TORCH_VERSION)
  message(FATAL_ERROR "LibTorch in ${_torch} is ${_version}; Capstan needs ${CAPSTAN_TORCH_VERSION}.\n"
    "Pass -DTorch_ROOT=<folder of torch ${CAPSTAN_TORCH_VERSION}> or run tools/setup.")
endif()
set(CAPSTAN_TORCH_DIR "${_torch}")
message(STATUS "LibTorch ${_version}: ${_torch}")

function(capstan_import_torch name)
  add_library(torch_${name} SHARED IMPORTED)
  set_target_properties(torch_${name} PROPERTIES IMPORTED_LOCATION "${CAPSTAN_TORCH_DIR}/lib/lib${name}.so" IMPORTED_NO_SONAME ON)
endfunction()
capstan_import_torch(c10)
capstan_import_torch(torch_cpu)
add_library(torch_headers INTERFACE)
target_include_directories(torch_headers SYSTEM INTERFACE
  "${CAPSTAN_TORCH_DIR}/include" "${CAPSTAN_TORCH_DIR}/include/torch/csrc/api/include")
target_compile_definitions(torch_headers INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
add_library(torch_link INTERFACE)
target_link_libraries(torch_link INTERFACE torch_headers torch_torch_cpu torch_c10)
add_library(torch::cpu ALIAS torch_link)

# Imports the pinned LibTorch as torch::cpu (and torch::cuda for the GPU module).
#
# Everything that depends on the LibTorch version stands here and in core/engine/comm/gloo_shim.
# Looked for in -DTorch_ROOT, then the environment's Torch_ROOT, then CAPSTAN_TORCH_DEFAULT: in the tree .deps/torch
# (made by tools/setup), from an installation the one that Capstan was built with. Torch_ROOT may be LibTorch itself,
# a site-packages folder, or a Python environment.
#
# Needs before it is included: CAPSTAN_TORCH_DEFAULT, and CAPSTAN_NVIDIA, a folder of NVIDIA's wheels (may be absent).
# Sets CAPSTAN_TORCH_VERSION, CAPSTAN_TORCH_DIR, CAPSTAN_TORCH_CUDA_MAJOR (empty: a build without CUDA)
# and CAPSTAN_TORCH_RPATH, the folders where a program finds LibTorch and what it needs.
set(CAPSTAN_TORCH_VERSION 2.11.0)
set(Torch_ROOT "$ENV{Torch_ROOT}" CACHE PATH "LibTorch ${CAPSTAN_TORCH_VERSION}, or a Python environment that has it")

function(capstan_find_torch result)
  set(root "${Torch_ROOT}")
  if(NOT root)
    set(root "${CAPSTAN_TORCH_DEFAULT}")
  endif()
  file(GLOB inside "${root}/lib/python3*/site-packages/torch")
  foreach(folder IN LISTS inside ITEMS "${root}/torch" "${root}")
    if(EXISTS "${folder}/lib/libtorch_cpu.so")
      set(${result} "${folder}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "no LibTorch in ${root} (lib/libtorch_cpu.so is missing).\n"
    "Pass -DTorch_ROOT=FOLDER with a torch ${CAPSTAN_TORCH_VERSION}: LibTorch, a site-packages folder or a Python "
    "environment. In Capstan's own tree tools/setup fetches one.")
endfunction()

function(capstan_torch_version folder result)
  set(header "${folder}/include/torch/headeronly/version.h")
  set(version "older than 2.9")   # version.h stood elsewhere then
  if(EXISTS "${header}")
    set(parts)
    foreach(part IN ITEMS MAJOR MINOR PATCH)
      file(STRINGS "${header}" line REGEX "define TORCH_VERSION_${part} ")
      string(REGEX REPLACE ".* " "" line "${line}")
      list(APPEND parts "${line}")
    endforeach()
    string(REPLACE ";" "." version "${parts}")
  endif()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# The CUDA major of this LibTorch: which libcudart it was linked with.
function(capstan_torch_cuda_major folder result)
  execute_process(COMMAND "${CMAKE_READELF}" -d "${folder}/lib/libtorch_cpu.so" OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  set(${result} "" PARENT_SCOPE)
  if(dynamic MATCHES "libcudart\\.so\\.([0-9]+)")
    set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  endif()
endfunction()

capstan_find_torch(CAPSTAN_TORCH_DIR)
capstan_torch_version("${CAPSTAN_TORCH_DIR}" _version)
if(NOT _version STREQUAL CAPSTAN_TORCH_VERSION)
  message(FATAL_ERROR "LibTorch in ${CAPSTAN_TORCH_DIR} is ${_version}; Capstan needs ${CAPSTAN_TORCH_VERSION}.\n"
    "Pass -DTorch_ROOT=FOLDER with a torch ${CAPSTAN_TORCH_VERSION}; in Capstan's own tree tools/setup fetches one.")
endif()
capstan_torch_cuda_major("${CAPSTAN_TORCH_DIR}" CAPSTAN_TORCH_CUDA_MAJOR)
if(CAPSTAN_CUDA AND NOT CAPSTAN_TORCH_CUDA_MAJOR)
  message(FATAL_ERROR "LibTorch in ${CAPSTAN_TORCH_DIR} was built without CUDA; use the preset cpu, or a CUDA build of torch ${CAPSTAN_TORCH_VERSION}.")
endif()
if(CAPSTAN_TORCH_CUDA_MAJOR)
  message(STATUS "LibTorch ${_version} for CUDA ${CAPSTAN_TORCH_CUDA_MAJOR}: ${CAPSTAN_TORCH_DIR}")
else()
  message(STATUS "LibTorch ${_version} without CUDA: ${CAPSTAN_TORCH_DIR}")
endif()

# LibTorch finds NVIDIA's libraries next to itself (nvidia/ in a site-packages folder or in .deps). A LibTorch
# that was given from elsewhere may lack them: then those that tools/setup fetched are used. Written as DT_RPATH,
# which LibTorch's own look-ups inherit and which comes before another torch on LD_LIBRARY_PATH.
file(GLOB _nvidia "${CAPSTAN_NVIDIA}/*/lib")
set(CAPSTAN_TORCH_RPATH "${CAPSTAN_TORCH_DIR}/lib" ${_nvidia})

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
target_link_options(torch_link INTERFACE "-Wl,--disable-new-dtags")
add_library(torch::cpu ALIAS torch_link)

# Only for the GPU module: LibTorch's CUDA half, with the headers of a CUDA toolkit of the same major.
# Nothing in the module names libtorch_cuda's kernel registrations, so the linker must not drop it.
if(CAPSTAN_CUDA)
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    message(FATAL_ERROR "CAPSTAN_CUDA is on, but there is no CUDA toolkit (nvcc). "
      "Put nvcc of CUDA ${CAPSTAN_TORCH_CUDA_MAJOR} on PATH, or use the preset cpu.")
  endif()
  if(NOT CUDAToolkit_VERSION_MAJOR EQUAL CAPSTAN_TORCH_CUDA_MAJOR)
    message(FATAL_ERROR "the CUDA toolkit in ${CUDAToolkit_BIN_DIR} is ${CUDAToolkit_VERSION}, but this LibTorch was built for CUDA "
      "${CAPSTAN_TORCH_CUDA_MAJOR}.\nPut nvcc of CUDA ${CAPSTAN_TORCH_CUDA_MAJOR} on PATH, or pass -DCUDAToolkit_ROOT=FOLDER.")
  endif()
  # With the toolkit, or in NVIDIA's wheel next to LibTorch.
  find_path(CAPSTAN_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} "${CAPSTAN_TORCH_DIR}/../nvidia/nccl/include"
    "${CAPSTAN_NVIDIA}/nccl/include")
  if(NOT CAPSTAN_NCCL_INCLUDE)
    message(FATAL_ERROR "nccl.h is neither in the CUDA toolkit nor next to LibTorch: install the wheel nvidia-nccl-cu${CAPSTAN_TORCH_CUDA_MAJOR} "
      "next to LibTorch (in Capstan's own tree: tools/setup --cuda --no-toolkit), or pass -DCAPSTAN_NCCL_INCLUDE=FOLDER.")
  endif()
  capstan_import_torch(c10_cuda)
  add_library(torch_cuda_link INTERFACE)
  target_include_directories(torch_cuda_link SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} "${CAPSTAN_NCCL_INCLUDE}")
  target_compile_definitions(torch_cuda_link INTERFACE USE_C10D_NCCL)
  target_link_libraries(torch_cuda_link INTERFACE torch_link torch_c10_cuda CUDA::cudart)
  target_link_options(torch_cuda_link INTERFACE "-Wl,--push-state,--no-as-needed,${CAPSTAN_TORCH_DIR}/lib/libtorch_cuda.so,--pop-state")
  add_library(torch::cuda ALIAS torch_cuda_link)
endif()
